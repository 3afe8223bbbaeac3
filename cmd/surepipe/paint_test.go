package main

import (
	"flag"
	"testing"
)

var paintPage = flag.String("paint", "", "the address of a page, such as file:///tmp/page.html, whose first paint is timed")

func TestFirstPaint(t *testing.T) {
	if *paintPage == "" {
		t.Skip("-paint ADDRESS names a page")
	}
	b := openBrowser(t, 1200, 800, "light")
	for range 7 {
		b.open(*paintPage)
		t.Logf("first paint after %s ms, all drawn after %s ms",
			b.text("Math.round(performance.getEntriesByType('paint')[0].startTime)"),
			b.text("Math.round(performance.getEntriesByType('navigation')[0].loadEventEnd)"))
		b.call("Page.navigate", map[string]any{"url": "about:blank"})
	}
}
