package solve

// Names lists the names of the table.
func Names() []string {
	var names []string
	for _, e := range Methods() {
		names = append(names, e.Name)
	}
	return names
}

// Lookup returns the entry of a name; ok is false for names that are not in the table.
func Lookup(name string) (e Entry, ok bool) {
	for _, e := range Methods() {
		if e.Name == name {
			return e, true
		}
	}
	return Entry{}, false
}

// Methods lists the methods that [New] knows. A new one is added here: its room has its entry.
func Methods() []Entry {
	return []Entry{directEntry, istaEntry, accelerated, admmEntry, activeEntry, newtonEntry, dualEntry, interiorEntry, primalDualEntry}
}
