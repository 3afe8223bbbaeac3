package array_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"surepipe/array"
)

// fakes is a driver with two devices, which are hosts.
type fakes struct{ opened []int64 }

func (f *fakes) Cards() ([]array.Card, error) {
	return []array.Card{{Name: "fake:0"}, {Name: "fake:1"}}, nil
}

func (f *fakes) Open(i int, memory int64) (array.Device, error) {
	if i > 1 {
		return nil, errors.New("no such fake")
	}
	f.opened = append(f.opened, int64(i), memory)
	return array.NewHost(), nil
}

func TestOpenFindsDevicesByName(t *testing.T) {
	f := &fakes{}
	array.RegisterForTest(t, "fake", f)
	for _, c := range []struct {
		name, fault string
	}{{"cpu", ""}, {"fake", ""}, {"fake:1", ""}, {"fake:2", "no such fake"}, {"fake:-1", "unknown"},
		{"fake:one", "unknown"}, {"fake:", "unknown"}, {"tpu", `"tpu"`}, {"", "unknown"}} {
		dev, err := array.Open(c.name, 7)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) || err == nil &&
			dev == nil {
			t.Errorf("Open(%q) gives %v", c.name, err)
		}
		var unknown *array.UnknownDevice
		if errors.As(err, &unknown) && (unknown.Name != c.name || !strings.Contains(err.Error(), "cpu, ")) {
			t.Errorf("Open(%q) gives %v, which lists %v", c.name, err, unknown.Kinds)
		}
	}
	if want := []int64{0, 7, 1, 7}; len(f.opened) != 4 || f.opened[2] != want[2] || f.opened[3] != want[3] {
		t.Errorf("opened %v, expected %v", f.opened, want)
	}
	cards, err := array.Cards()
	if n := len(cards); err != nil || n < 2 || cards[n-1].Name != "fake:1" {
		t.Errorf("Cards gives %v, %v", cards, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second driver of one kind is taken")
		}
	}()
	array.Register("fake", f)
}

func TestReservations(t *testing.T) {
	ctx := context.Background()
	var r array.Reservations
	free := func() int64 { return 100 }
	reserve := func(least, most int64) (int64, func()) {
		t.Helper()
		n, release, err := r.Reserve(ctx, free, least, most)
		if err != nil {
			t.Fatal(err)
		}
		return n, release
	}
	first, release1 := reserve(10, 70)
	second, release2 := reserve(10, 70)
	if first != 70 || second != 30 || r.Bytes() != 100 {
		t.Errorf("of 100 bytes 70 and 70 are asked, %d and %d granted, %d counted", first, second, r.Bytes())
	}
	// A third waits until enough comes back.
	got := make(chan int64)
	go func() {
		n, release, _ := r.Reserve(ctx, free, 50, 60)
		got <- n
		release()
	}()
	select {
	case n := <-got:
		t.Errorf("%d bytes granted of none", n)
	case <-time.After(20 * time.Millisecond):
	}
	release2()
	release2() // a second time does nothing
	select {
	case n := <-got:
		t.Errorf("%d bytes granted of 30", n)
	case <-time.After(20 * time.Millisecond):
	}
	release1()
	if n := <-got; n != 60 {
		t.Errorf("%d bytes granted, expected 60", n)
	}
	for r.Bytes() != 0 {
		time.Sleep(time.Millisecond)
	}
	// Alone one gets the least whether it is there or not: Alloc says what is missing.
	n, release := reserve(500, 900)
	if n != 500 {
		t.Errorf("%d bytes granted, expected 500", n)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := r.Reserve(cancelled, free, 1, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting without a hope gives %v", err)
	}
	release()
}

func TestOutOfMemorySaysHowMuch(t *testing.T) {
	err := &array.OutOfMemory{Device: "fake:0", Op: "a batch of 3 x 5", Bytes: 512, Available: 100, Limit: 1000}
	if got, want := err.Error(), "fake:0: out of memory: a batch of 3 x 5 needs 512 bytes, 100 of 1000 are free"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}
