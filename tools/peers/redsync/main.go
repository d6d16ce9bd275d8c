// redsync as a peer; tools/peers/README.md says how it is spoken to.
package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	pools "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const usual = 30 * time.Second

func main() {
	if len(os.Args) > 1 && os.Args[1] == "pairs" {
		pairs(os.Args[1:])
		return
	}
	contend(func(url, name string) (func(context.Context) (func(), error), error) {
		locks, err := connect(url)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (func(), error) {
			return acquire(ctx, locks, name)
		}, nil
	})
}

// connect returns locks over all these servers.
func connect(urls string) (*redsync.Redsync, error) {
	var all []pools.Pool
	for _, url := range strings.Fields(urls) {
		options, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		client := redis.NewClient(options)
		if err := client.Ping(context.Background()).Err(); err != nil {
			return nil, err
		}
		all = append(all, goredis.NewPool(client))
	}
	return redsync.New(all...), nil
}

// acquire waits for the lock and returns its release.
func acquire(ctx context.Context, locks *redsync.Redsync, name string) (func(), error) {
	mutex := locks.NewMutex(name, redsync.WithExpiry(ttl(usual)))
	// It gives up after some tries.
	for mutex.LockContext(ctx) != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return func() {
		if ok, err := mutex.Unlock(); !ok {
			panic(err)
		}
	}, nil
}
