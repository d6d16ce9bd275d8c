// rueidislock as a peer; tools/peers/README.md says how it is spoken to.
package main

import (
	"context"
	"net/url"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const ttl = 30 * time.Second

func main() {
	contend(func(server, name string) (func(context.Context) (func(), error), error) {
		address, err := url.Parse(server)
		if err != nil {
			return nil, err
		}
		locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{address.Host}},
			KeyValidity:  ttl,
			// One server: one key.
			KeyMajority:    1,
			NoLoopTracking: true,
		})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (func(), error) {
			_, release, err := locks.WithContext(ctx, name)
			return release, err
		}, nil
	})
}
