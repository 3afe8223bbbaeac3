package together

import "sync"

// rounds let members, each in a goroutine of its own, ask for something, which is served when every member that is left
// has asked. The members are numbered; what they ask for is served in the order of their numbers.
type rounds[T any] struct {
	mu   sync.Mutex
	done *sync.Cond // told of each round
	// live is how many members are left, and asked how many of these wait.
	live, asked, round int
	slots              []*T // what the members ask for, nil for nothing
	serve              func(all []*T)
}

// ask serves what member k asks for, with all others' if it is the last to ask; else it waits for that, between leave
// and enter. The caller holds mu.
func (r *rounds[T]) ask(k int, what *T, leave, enter func()) {
	r.slots[k] = what
	if r.asked++; r.asked == r.live {
		r.next()
		return
	}
	leave()
	for round := r.round; round == r.round; {
		r.done.Wait()
	}
	r.mu.Unlock()
	enter()
	r.mu.Lock()
}

// drop takes a member out: the others go on without it. The caller holds mu.
func (r *rounds[T]) drop() {
	if r.live--; r.live > 0 && r.asked == r.live {
		r.next()
	}
}

func (r *rounds[T]) next() {
	var all []*T
	for k, what := range r.slots {
		if what != nil {
			all = append(all, what)
			r.slots[k] = nil
		}
	}
	r.asked = 0
	r.round++
	r.serve(all)
	r.done.Broadcast()
}
