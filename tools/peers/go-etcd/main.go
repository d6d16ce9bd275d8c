// Go's concurrency.Mutex on etcd as a peer; tools/peers/README.md says how it is spoken to.
package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// usual time to live of a session.
const usual = 10 * time.Second

func main() {
	contend(func(server, name string) (func(context.Context) (func(), error), error) {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{strings.TrimPrefix(server, "etcd://")},
		})
		if err != nil {
			return nil, err
		}
		tasks, err := strconv.Atoi(os.Args[3])
		if err != nil {
			return nil, err
		}
		// Two locks of one session would be one.
		sessions := make(chan *concurrency.Session, tasks)
		for range tasks {
			session, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl(usual).Seconds())))
			if err != nil {
				return nil, err
			}
			sessions <- session
		}
		return func(ctx context.Context) (func(), error) {
			session := <-sessions
			mutex := concurrency.NewMutex(session, name)
			if err := mutex.Lock(ctx); err != nil {
				sessions <- session
				return nil, err
			}
			return func() {
				must(mutex.Unlock(context.Background()))
				sessions <- session
			}, nil
		}, nil
	})
}
