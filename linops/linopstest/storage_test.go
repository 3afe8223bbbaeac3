package linopstest_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/linopstest"
	"surepipe/space"
)

func TestCheckFindsFalseStorage(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		a := honest(dev)
		inner := linops.StructureOf(a)
		edit := func(f func(s *linops.Structure)) linops.Operator { return edited(a, f) }
		passes := func(f func(s *linops.Passes)) linops.Operator {
			return edit(func(s *linops.Structure) {
				n := 0
				s.Passes = linops.Passes{Bytes: 8, ColumnBytes: func(int) int64 { return 8 },
					Adjoint: func(ctx context.Context, dst, z array.Batch) error {
						n++
						a.Adjoint(dst, z)
						return ctx.Err()
					},
					Columns: func(ctx context.Context, dev array.Device, t space.Space) (linops.Restricted, error) {
						if err := ctx.Err(); err != nil {
							return nil, err
						}
						return inner.On(dev, t), nil
					},
					Count: func() (int64, int64) { return int64(n), 8 * int64(n) }}
				f(&s.Passes)
			})
		}
		if err := linopstest.Check(dev, passes(func(*linops.Passes) {})); err != nil {
			t.Error(err)
		}
		other := linops.NewDense(dev, mat.NewDense(3, 5, nil))
		for _, c := range []fault{
			{"Entries", edit(func(s *linops.Structure) { s.Entries = linops.Known(14) }), "Entries is 14, but 15 are stored"},
			{"ColumnSpread", edit(func(s *linops.Structure) {
				s.ColumnSpread = func() (float64, float64) { return 5, 36 }
			}), "ColumnSpread is 5 to 36"},
			{"Stored", edit(func(s *linops.Structure) { s.Stored = linops.StructureOf(other).Stored }),
				"Stored: its column 0"},
			{"Shared", edit(func(s *linops.Structure) {
				s.Shared = func(_ any, make func() any) any { return make() }
			}), "Shared: two keys"},
			{"Products", edit(func(s *linops.Structure) {
				s.Products = func(dst array.Batch, b linops.Operator) bool {
					dev.Fill(dst, 1)
					return true
				}
			}), "Products differs"},
			{"Products after writing", edit(func(s *linops.Structure) {
				s.Products = func(dst array.Batch, b linops.Operator) bool {
					dev.Fill(dst, 1)
					return false
				}
			}), "Products returns false"},
			{"Blocks", edit(func(s *linops.Structure) {
				s.Blocks = func(p []float64, order int) []float64 { return make([]float64, 3*order) }
			}), "Blocks of order 1 differ"},
			{"BallStep", edit(func(s *linops.Structure) {
				s.BallStep = func(b linops.BallStep) (float64, bool) {
					dev.Copy(b.Dst, b.U)
					return 0, true
				}
			}), "BallStep differs"},
			{"BallStep after writing", edit(func(s *linops.Structure) {
				s.BallStep = func(b linops.BallStep) (float64, bool) {
					dev.Copy(b.Dst, b.U)
					return 0, false
				}
			}), "takes no step, but has written"},
			{"KeepColumns", edit(func(s *linops.Structure) {
				kept := false
				s.KeepColumns = func() { kept = true }
				s.On = func(dev array.Device, t space.Space) linops.Restricted {
					if kept {
						return linops.StructureOf(other).On(dev, t)
					}
					return inner.On(dev, t)
				}
			}), "Forward differs"},
			{"WeighRows", edit(func(s *linops.Structure) {
				s.On = func(dev array.Device, t space.Space) linops.Restricted {
					return weighless{inner.On(dev, t)}
				}
			}), "WeighRows returns true"},
			{"Passes without a count", passes(func(p *linops.Passes) { p.Count = nil }), "a function is missing"},
			{"Passes not counted", passes(func(p *linops.Passes) {
				p.Count = func() (int64, int64) { return 1, 8 }
			}), "before a product"},
			{"Passes.Adjoint to the end", passes(func(p *linops.Passes) {
				adjoint := p.Adjoint
				p.Adjoint = func(_ context.Context, dst, z array.Batch) error { return adjoint(t.Context(), dst, z) }
			}), "after the context is done"},
			{"Passes.Columns of another", passes(func(p *linops.Passes) {
				p.Columns = func(ctx context.Context, dev array.Device, t space.Space) (linops.Restricted, error) {
					return linops.StructureOf(other).On(dev, t), ctx.Err()
				}
			}), "Forward differs"},
		} {
			c.found(t, linopstest.Check(dev, c.a))
		}
	})
}

// weighless says that it weighs its rows, and does not.
type weighless struct{ linops.Restricted }

func (w weighless) Structure() linops.Structure {
	return linops.Structure{Storage: linops.Storage{WeighRows: func([]float64) bool { return true }}}
}

// A field of a structure that the suite does not name has no test.
func TestEveryFieldIsTested(t *testing.T) {
	var text strings.Builder
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(source)
	}
	var missing func(of reflect.Type, path string)
	missing = func(of reflect.Type, path string) {
		for i := range of.NumField() {
			f := of.Field(i)
			switch known := f.Type.PkgPath() == of.PkgPath() && f.Type.Kind() == reflect.Struct; {
			case !f.IsExported():
			case f.Anonymous:
				missing(f.Type, path)
			case !regexp.MustCompile(`\b` + regexp.QuoteMeta(path+f.Name) + `\b`).MatchString(text.String()):
				t.Errorf("no test of %s%s", path, f.Name)
			case known && (f.Name == "Passes" || f.Name == "Panels"):
				missing(f.Type, ".")
			}
		}
	}
	missing(reflect.TypeFor[linops.Structure](), "c.s.")
}
