package array

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Driver opens devices of one kind. Its package registers it (see [Register]), so that programs
// choose a device by name and nothing above package array imports the driver.
type Driver interface {
	// Cards describes the devices that are present, in order. It is not an error if there are none.
	Cards() ([]Card, error)
	// Open opens card number i, which may then hold at most memory bytes; 0 leaves
	// the bound to the driver.
	Open(i int, memory int64) (Device, error)
}

// Card describes a device that can be opened.
type Card struct {
	// Name is what [Open] takes, "cuda:0".
	Name string
	// Model is the manufacturer's name for it.
	Model        string
	Memory, Free int64
	// Driver is the driver's version.
	Driver string
}

// drivers are the registered drivers: kinds has their names, in order.
var drivers struct {
	mu    sync.Mutex
	kinds []string
	of    map[string]Driver
}

// Register makes the devices of a driver known under "kind" and "kind:i". It is called from a
// package's init, and panics if the kind is already registered.
func Register(kind string, d Driver) {
	drivers.mu.Lock()
	defer drivers.mu.Unlock()
	if drivers.of[kind] != nil || kind == "cpu" || kind == "auto" {
		panic(fmt.Sprintf("array: a second driver for %q", kind))
	}
	if drivers.of == nil {
		drivers.of = map[string]Driver{}
	}
	drivers.of[kind] = d
	drivers.kinds = append(drivers.kinds, kind)
}

// Kinds lists what [Open] takes: "cpu" and the kinds that were registered.
func Kinds() []string {
	drivers.mu.Lock()
	defer drivers.mu.Unlock()
	return append([]string{"cpu"}, drivers.kinds...)
}

func driver(kind string) Driver {
	drivers.mu.Lock()
	defer drivers.mu.Unlock()
	return drivers.of[kind]
}

// Cards describes the devices of all drivers.
func Cards() ([]Card, error) {
	var all []Card
	for _, kind := range Kinds()[1:] {
		cards, err := driver(kind).Cards()
		if err != nil {
			return nil, err
		}
		all = append(all, cards...)
	}
	return all, nil
}

// UnknownDevice is the error for a name that no driver in the program knows.
type UnknownDevice struct {
	Name  string
	Kinds []string
}

func (e *UnknownDevice) Error() string {
	return fmt.Sprintf("device %q is unknown to this program, expected %s or auto", e.Name, strings.Join(e.Kinds, ", "))
}

// Open opens a device by name: "cpu", a kind such as "cuda" for its first card, "cuda:1" for its
// second, or "auto" for the first card of any kind, or the host where there is none. memory bounds
// the bytes that a card may hold; 0 leaves the bound to its driver. It has no effect on "cpu".
func Open(name string, memory int64) (Device, error) {
	switch name {
	case "cpu":
		if h, ok := spares.Get().(*Host); ok {
			return h, nil
		}
		return NewHost(), nil
	case "auto":
		cards, err := Cards()
		if err != nil || len(cards) == 0 {
			return Open("cpu", memory)
		}
		return Open(cards[0].Name, memory)
	}
	kind, number, numbered := strings.Cut(name, ":")
	d := driver(kind)
	i, err := 0, error(nil)
	if numbered {
		i, err = strconv.Atoi(number)
	}
	if d == nil || err != nil || i < 0 {
		return nil, &UnknownDevice{name, Kinds()}
	}
	return d.Open(i, memory)
}
