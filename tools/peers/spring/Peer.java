import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.time.Duration;
import java.util.concurrent.locks.Lock;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/** Spring's RedisLockRegistry as a peer; tools/peers/README.md says how it is spoken to. */
final class Peer {
    /** What all keys begin with. */
    static final String REGISTRY = "bench";

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        if (args.length < 8 || !args[0].equals("contention")) {
            throw new IllegalArgumentException("usage: see tools/peers/README.md");
        }
        URI server = URI.create(input.readLine());
        LettuceConnectionFactory connections =
                new LettuceConnectionFactory(new RedisStandaloneConfiguration(server.getHost(), server.getPort()));
        connections.afterPropertiesSet();
        connections.start();
        RedisLockRegistry registry =
                new RedisLockRegistry(connections, REGISTRY, Duration.ofMillis(Orders.ttlMs(30_000)));
        if (args[3].startsWith("pub-sub")) {
            registry.setRedisLockType(RedisLockRegistry.RedisLockType.PUB_SUB_LOCK);
        }
        if (args[3].endsWith("renewed")) {
            ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
            scheduler.setDaemon(true);
            scheduler.afterPropertiesSet();
            registry.setRenewalTaskScheduler(scheduler);
        }
        // Its classes are loaded by then.
        Wanted own = of(registry.obtain(args[5] + "-" + args[7]));
        own.release(own.acquire());
        Contention.run(args, input, () -> of(registry.obtain(args[5])));
    }

    static Wanted of(Lock lock) {
        return new Wanted() {
            @Override
            public Object acquire() {
                lock.lock();
                return null;
            }

            @Override
            public void release(Object held) {
                lock.unlock();
            }
        };
    }
}
