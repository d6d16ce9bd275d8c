// rueidislock as a peer; tools/peers/README.md says how it is spoken to.
package main

import (
	"context"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const usual = 30 * time.Second

// majority of the keys: `lock` has one key, `majority-2` three.
func majority(lock string) int32 {
	number, err := strconv.Atoi(strings.TrimPrefix(lock, "majority-"))
	if err != nil {
		return 1
	}
	return int32(number)
}

func main() {
	contend(func(server, name string) (func(context.Context) (func(), error), error) {
		address, err := url.Parse(server)
		if err != nil {
			return nil, err
		}
		locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{address.Host}},
			KeyValidity:    ttl(usual),
			KeyMajority:    majority(os.Args[4]),
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
