module rueidislock-peer

go 1.24

require github.com/redis/rueidis/rueidislock v1.0.79
