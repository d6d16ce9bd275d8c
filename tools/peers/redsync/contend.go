// The part that the Go peers share: the tasks, the judge and the report.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// open connects to a server and returns what waits for the lock and returns its release.
type open func(url, name string) (acquire func(context.Context) (func(), error), err error)

type tally struct {
	waits, unfinished                        []int64
	count, handoffs, local, visits, overlaps int64
}

type job struct {
	hold    time.Duration
	file    string
	process uint32
	marked  atomic.Bool
}

// contend is the program: arguments and orders as tools/peers/README.md has them.
func contend(open open) {
	args := os.Args[1:]
	if len(args) != 8 || args[0] != "contention" {
		panic("usage: see tools/peers/README.md")
	}
	number := func(at int) int {
		n, err := strconv.Atoi(args[at])
		must(err)
		return n
	}
	job := &job{
		hold:    time.Duration(number(4)) * time.Microsecond,
		file:    args[6],
		process: uint32(number(7)),
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	acquire, err := open(lines.Text(), args[5])
	must(err)
	tallies := make([]tally, number(2))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var tasks sync.WaitGroup
	fmt.Println("ready")
	for lines.Scan() {
		switch lines.Text() {
		case "begin":
			for at := range tallies {
				tasks.Add(1)
				go func() {
					defer tasks.Done()
					job.task(ctx, acquire, uint32(at+1), &tallies[at])
				}()
			}
		case "mark":
			job.marked.Store(true)
		case "enough":
			job.marked.Store(false)
		case "end":
			cancel()
			tasks.Wait()
			report(tallies)
			return
		}
	}
}

func (j *job) task(ctx context.Context, acquire func(context.Context) (func(), error), me uint32, t *tally) {
	file, err := os.OpenFile(j.file, os.O_RDWR, 0)
	must(err)
	for {
		asked := time.Now()
		release, err := acquire(ctx)
		if err != nil {
			if ctx.Err() == nil {
				panic(err)
			}
			t.unfinished = append(t.unfinished, time.Since(asked).Microseconds())
			return
		}
		waited := time.Since(asked)
		alone := j.enter(int(file.Fd()), me, waited, t)
		if j.hold > 0 {
			time.Sleep(j.hold)
		}
		if alone {
			must(syscall.Flock(int(file.Fd()), syscall.LOCK_UN))
		}
		release()
	}
}

// enter asks the judge whether nobody else is inside.
func (j *job) enter(file int, me uint32, waited time.Duration, t *tally) bool {
	marked := j.marked.Load()
	if marked {
		t.count++
	}
	t.visits++
	err := syscall.Flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		t.overlaps++
		note(j.file)
		return false
	}
	must(err)
	var last, now [8]byte
	_, err = syscall.Pread(file, last[:], 0)
	must(err)
	binary.LittleEndian.PutUint32(now[:4], j.process)
	binary.LittleEndian.PutUint32(now[4:], me)
	_, err = syscall.Pwrite(file, now[:], 0)
	must(err)
	process := binary.LittleEndian.Uint32(last[:4])
	if marked && process != 0 && last != now {
		t.waits = append(t.waits, waited.Microseconds())
		t.handoffs++
		if process == j.process {
			t.local++
		}
	}
	return true
}

// note says at once that two were inside: the process may be killed before its report.
func note(file string) {
	notes, err := os.OpenFile(file+".notes", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(err)
	_, err = notes.Write([]byte("o"))
	must(err)
	must(notes.Close())
}

func report(tallies []tally) {
	counts, waits, unfinished := []int64{}, []int64{}, []int64{}
	var sum tally
	for _, t := range tallies {
		counts = append(counts, t.count)
		waits = append(waits, t.waits...)
		unfinished = append(unfinished, t.unfinished...)
		sum.handoffs += t.handoffs
		sum.local += t.local
		sum.visits += t.visits
		sum.overlaps += t.overlaps
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"counts": counts, "waits_us": waits, "unfinished_us": unfinished,
		"handoffs": sum.handoffs, "local": sum.local, "visits": sum.visits,
		"overlaps": sum.overlaps, "fallen": 0,
	}))
}

// ttl is the usual time to live, or what the environment says instead.
func ttl(usual time.Duration) time.Duration {
	if ms, err := strconv.Atoi(os.Getenv("PEER_TTL_MS")); err == nil {
		return time.Duration(ms) * time.Millisecond
	}
	return usual
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
