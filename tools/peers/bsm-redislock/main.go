// bsm/redislock as a peer; tools/peers/README.md says how it is spoken to.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

const usual = 30 * time.Second

func main() {
	contend(func(url, name string) (func(context.Context) (func(), error), error) {
		options, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		client := redis.NewClient(options)
		if err := client.Ping(context.Background()).Err(); err != nil {
			return nil, err
		}
		locks := redislock.New(client)
		return func(ctx context.Context) (func(), error) {
			return acquire(ctx, locks, name)
		}, nil
	})
}

// acquire waits for the lock and returns its release.
func acquire(ctx context.Context, locks *redislock.Client, name string) (func(), error) {
	// By itself it does not wait.
	waits := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	for {
		lock, err := locks.Obtain(ctx, name, ttl(usual), waits)
		switch {
		case err == nil:
			return func() { must(lock.Release(context.Background())) }, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		// It gives up after the time to live.
		case !errors.Is(err, redislock.ErrNotObtained) && !errors.Is(err, context.DeadlineExceeded):
			return nil, err
		}
	}
}
