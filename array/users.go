package array

import "sync/atomic"

// Users counts those who use what the last of them frees: at first there is one. It is for any goroutine.
type Users struct{ more atomic.Int32 }

// Join adds a user.
func (u *Users) Join() { u.more.Add(1) }

// Leave takes a user away, and reports whether it was the last.
func (u *Users) Leave() bool { return u.more.Add(-1) < 0 }
