package solve

import (
	"fmt"
	"os"
	"time"
)

var zzT0 = time.Now()
var zzOn = os.Getenv("ZZ") != ""

func zz(format string, args ...any) {
	if zzOn {
		fmt.Fprintf(os.Stderr, "%7.2f ", time.Since(zzT0).Seconds())
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}
