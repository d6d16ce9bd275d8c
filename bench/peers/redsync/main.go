// redsync as a peer; bench/peers/README.md says how it is spoken to.
package main

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const ttl = 30 * time.Second

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
		locks := redsync.New(goredis.NewPool(client))
		return func(ctx context.Context) (func(), error) {
			mutex := locks.NewMutex(name, redsync.WithExpiry(ttl))
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
		}, nil
	})
}
