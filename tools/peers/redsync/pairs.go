// The job pairs: each task acquires and releases a lock of its own.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
)

// pairs is the program: arguments and orders as tools/peers/README.md has them.
func pairs(args []string) {
	if len(args) != 5 {
		panic("usage: see tools/peers/README.md")
	}
	tasks, err := strconv.Atoi(args[2])
	must(err)
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	locks, err := connect(lines.Text())
	must(err)
	counts := make([]atomic.Int64, tasks)
	for at := range counts {
		name := fmt.Sprintf("%s/%08d", args[4], at)
		go again(locks, name, args[3] == "fresh", &counts[at])
	}
	for at := range counts {
		for counts[at].Load() == 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	fmt.Println("ready")
	for lines.Scan() {
		var sum int64
		for at := range counts {
			sum += counts[at].Load()
		}
		fmt.Println(sum)
	}
}

func again(locks *redsync.Redsync, name string, fresh bool, count *atomic.Int64) {
	for number := 1; ; number++ {
		mine := name
		if fresh {
			mine = fmt.Sprintf("%s/%010d", name, number)
		}
		release, err := acquire(context.Background(), locks, mine)
		must(err)
		release()
		count.Add(1)
	}
}
