//go:build cuda

package cuda

import (
	"embed"
	"errors"
	"fmt"

	"gorgonia.org/cu"

	"surepipe/array"
)

//go:generate go run ./internal/gen

//go:embed kernels/*.ptx
var ptx embed.FS

var errNoCard = errors.New("no CUDA card found")

func init() { array.Register("cuda", driver{}) }

type driver struct{}

func (driver) Open(i int, memory int64) (array.Device, error) {
	d, err := Open(i, memory)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (driver) Cards() ([]array.Card, error) {
	if err := initError(); err != nil {
		if errors.Is(err, errNoCard) {
			return nil, nil
		}
		return nil, fmt.Errorf("cuda: %w", err)
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("cuda: counting cards: %w", err)
	}
	version := fmt.Sprintf("CUDA %d.%d", cu.Version()/1000, cu.Version()%1000/10)
	var cards []array.Card
	for i := range n {
		card := array.Card{Name: fmt.Sprintf("cuda:%d", i), Driver: version}
		dev, err := cu.GetDevice(i)
		if err == nil {
			card.Model, err = dev.Name()
		}
		if err == nil {
			card.Memory, err = dev.TotalMem()
		}
		if err == nil {
			card.Free, err = freeOn(dev)
		}
		if err != nil {
			return nil, fmt.Errorf("cuda:%d: %w", i, err)
		}
		cards = append(cards, card)
	}
	return cards, nil
}

func freeOn(card cu.Device) (int64, error) {
	ctx, err := card.RetainPrimaryCtx()
	if err != nil {
		return 0, err
	}
	defer card.ReleasePrimaryCtx()
	var free int64
	err = within(ctx, func() (err error) {
		free, _, err = cu.MemInfo()
		return err
	})
	return free, err
}

// Without a bound, one part in spared of a card's free memory is left to the driver.
const spared = 16

// Open opens card number i. The device holds at most memory bytes on the card; 0 stands for nearly
// all that is free.
func Open(i int, memory int64) (*Device, error) {
	if err := initError(); err != nil {
		return nil, fmt.Errorf("cuda:%d: %w", i, err)
	}
	if n, err := cu.NumDevices(); err != nil || i < 0 || i >= n {
		return nil, fmt.Errorf("cuda:%d: there are %d CUDA cards, numbered from 0", i, n)
	}
	if memory < 0 {
		return nil, fmt.Errorf("cuda:%d: a bound of %d bytes, expected none or a positive number", i, memory)
	}
	d := &Device{card: &card{name: fmt.Sprintf("cuda:%d", i), pool: map[int][]*buffer{}, all: map[*buffer]struct{}{}}}
	if err := d.open(i, memory); err != nil {
		d.Close()
		return nil, fmt.Errorf("%s: %w", d.name, err)
	}
	return d, nil
}

func (d *card) open(i int, memory int64) (err error) {
	if d.device, err = cu.GetDevice(i); err != nil {
		return err
	}
	if d.ctx, err = d.device.RetainPrimaryCtx(); err != nil {
		return fmt.Errorf("taking the card's context: %w", err)
	}
	d.retained = true
	return within(d.ctx, func() error {
		free, _, err := cu.MemInfo()
		if err != nil {
			return fmt.Errorf("asking for free memory: %w", err)
		}
		if d.limit = free - free/spared; memory > 0 {
			d.limit = min(memory, free)
		}
		if d.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
			return fmt.Errorf("making a stream: %w", err)
		}
		d.streaming = true
		for i, name := range kernelNames {
			image, err := ptx.ReadFile("kernels/" + name + ".ptx")
			if err != nil {
				return err
			}
			module, err := cu.LoadData(string(image))
			if err != nil {
				return fmt.Errorf("loading kernel %s: %w", name, err)
			}
			d.modules = append(d.modules, module)
			if d.kernels[i], err = module.Function(name); err != nil {
				return fmt.Errorf("finding kernel %s: %w", name, err)
			}
		}
		return nil
	})
}
