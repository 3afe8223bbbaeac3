package predict

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	"surepipe/internal/dataio"
	"surepipe/internal/fit"
	"surepipe/internal/lists"
	"surepipe/study"
)

// WriteCSV writes the predictions as a table, of entries with the names of their rows and columns.
func (p *Prediction) WriteCSV(ctx context.Context, w io.Writer) error {
	if p.each != nil {
		return p.entriesCSV(ctx, w)
	}
	at := -1
	record := func() []string {
		if at++; at > p.Count {
			return nil
		}
		cells := p.cells(at)
		if p.Names == nil {
			return cells
		}
		name := ""
		if at > 0 {
			name = p.Names[at-1]
		}
		return append([]string{name}, cells...)
	}
	return dataio.EncodeRecords(w, record)
}

// cells are those of row at, counted from 1, without its name; at 0 is the header.
func (p *Prediction) cells(at int) []string {
	switch {
	case p.Responses != nil && at == 0:
		return p.Responses
	case p.Responses != nil:
		return lists.Map(p.Values[at-1], format)
	case p.Classes == nil && at == 0:
		return []string{"prediction"}
	case p.Classes == nil:
		return []string{format(p.Predictions[at-1])}
	case at == 0:
		return append([]string{"prediction"}, p.Classes...)
	}
	return append([]string{p.Predicted[at-1]}, lists.Map(p.Probabilities[at-1], format)...)
}

// WriteJSON writes one object on one line.
func (p *Prediction) WriteJSON(ctx context.Context, w io.Writer) error {
	if p.each != nil {
		return p.entriesJSON(ctx, w)
	}
	return study.WriteLine(w, (*numbers)(p))
}

type numbers Prediction

// MarshalJSON is [Prediction.WriteJSON] to memory.
func (p *Prediction) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := p.WriteJSON(context.Background(), &b)
	return b.Bytes(), err
}

// UnmarshalJSON reads what WriteJSON has written.
func (p *Prediction) UnmarshalJSON(text []byte) error {
	var entries struct {
		Entries [][3]json.RawMessage `json:"entries"`
	}
	if err := json.Unmarshal(text, (*numbers)(p)); err != nil {
		return err
	}
	if p.Predicts != fit.Entries {
		return nil
	}
	if err := json.Unmarshal(text, &entries); err != nil {
		return err
	}
	of := &fit.Fit{}
	names := [2]*[]string{&of.RowNames, &of.ColumnNames}
	known := [2]map[string]int{{}, {}}
	held := make([]fit.Entry, len(entries.Entries))
	for i, e := range entries.Entries {
		for k, place := range []*int{&held[i].Row, &held[i].Column} {
			var name string
			if json.Unmarshal(e[k], place) == nil {
				continue
			}
			if err := json.Unmarshal(e[k], &name); err != nil {
				return err
			}
			at, ok := known[k][name]
			if !ok {
				at = len(known[k])
				known[k][name], *names[k] = at, append(*names[k], name)
			}
			*place = at
		}
		if err := json.Unmarshal(e[2], &held[i].Value); err != nil {
			return err
		}
	}
	p.fit, p.each = of, slices.Values(held)
	return nil
}

// format writes a number with the fewest digits from which it can be read back.
func format(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// stopEvery is the number of entries between two looks at the context.
const stopEvery = 1 << 16

func (p *Prediction) entriesCSV(ctx context.Context, to io.Writer) error {
	f := p.fit
	head := csvCell(cmp.Or(f.RowsBy, "row")) + "," + csvCell(cmp.Or(f.ColumnsBy, "column")) + ",prediction\n"
	return p.writeEntries(ctx, to, csvCell, [4]string{head, "", "\n", ""})
}

// entriesJSON writes the object with the entries at its end, without holding their text.
func (p *Prediction) entriesJSON(ctx context.Context, to io.Writer) error {
	head, err := json.Marshal((*numbers)(p))
	if err != nil {
		return err
	}
	return p.writeEntries(ctx, to, jsonText, [4]string{string(head[:len(head)-1]) + `,"entries":[`, ",[", "]", "]}\n"})
}

// writeEntries writes all between a head and a foot: each row, column and value behind a beginning, of which the first
// has no comma, and before an end. name makes a text of a name.
func (p *Prediction) writeEntries(ctx context.Context, to io.Writer, name func(string) string,
	around [4]string) error {
	head, begin, end, foot := around[0], around[1], around[2], around[3]
	w := bufio.NewWriterSize(to, 64<<10)
	w.WriteString(head)
	rows, columns := labels(p.fit.RowNames, name), labels(p.fit.ColumnNames, name)
	var buf []byte
	i := 0
	for e := range p.each {
		if i%stopEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		buf = append(buf[:0], begin...)
		if i == 0 {
			buf = append(buf[:0], strings.TrimPrefix(begin, ",")...)
		}
		buf = append(rows(buf, e.Row), ',')
		buf = append(columns(buf, e.Column), ',')
		buf = append(strconv.AppendFloat(buf, e.Value, 'g', -1, 64), end...)
		if _, err := w.Write(buf); err != nil {
			return err
		}
		i++
	}
	w.WriteString(foot)
	return w.Flush()
}

func labels(names []string, text func(string) string) func(buf []byte, k int) []byte {
	if names == nil {
		return func(buf []byte, k int) []byte { return strconv.AppendInt(buf, int64(k), 10) }
	}
	texts := lists.Map(names, text)
	return func(buf []byte, k int) []byte { return append(buf, texts[k]...) }
}

func csvCell(text string) string { return string(dataio.AppendCell(nil, text)) }

func jsonText(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string is always valid
	}
	return string(quoted)
}
