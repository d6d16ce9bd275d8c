module rueidislock-peer

go 1.24

require github.com/redis/rueidis v1.0.79
