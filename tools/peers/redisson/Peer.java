import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's locks as peers; tools/peers/README.md says how they are spoken to. */
final class Peer {
    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        if (args.length == 5 && args[0].equals("pairs")) {
            Pairs.run(args, input);
            return;
        }
        if (args.length < 8) {
            throw new IllegalArgumentException("usage: see tools/peers/README.md");
        }
        Config config = new Config();
        config.setLockWatchdogTimeout(Orders.ttlMs(30_000));
        // A waiter that was killed stands in the queue of a fair lock for that long.
        config.setFairLockWaitTimeout(Orders.ttlMs(300_000));
        config.useSingleServer().setAddress(input.readLine());
        RedissonClient client = Redisson.create(config);
        String name = args[5];
        // Its classes are loaded by then.
        RLock own = client.getLock(name + "/" + args[7]);
        own.lock();
        own.unlock();
        switch (args[0]) {
            case "contention" -> {
                Supplier<RLock> lock = () -> switch (args[3]) {
                    case "fair" -> client.getFairLock(name);
                    case "fenced" -> client.getFencedLock(name);
                    case "spin" -> client.getSpinLock(name);
                    case "write" -> client.getReadWriteLock(name).writeLock();
                    default -> client.getLock(name);
                };
                Contention.run(args, input, () -> of(lock.get()));
            }
            case "readers" -> {
                Supplier<RReadWriteLock> lock = () -> client.getReadWriteLock(name);
                Readers.run(args, input, () -> of(lock.get().readLock()), () -> of(lock.get().writeLock()));
            }
            case "semaphore" -> {
                client.getPermitExpirableSemaphore(name).trySetPermits(Integer.parseInt(args[8]));
                Contention.run(args, input, () -> of(client.getPermitExpirableSemaphore(name)));
            }
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    static Wanted of(RLock lock) {
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

    static Wanted of(RPermitExpirableSemaphore semaphore) {
        return new Wanted() {
            @Override
            public Object acquire() throws InterruptedException {
                return semaphore.acquire(30, TimeUnit.SECONDS);
            }

            @Override
            public void release(Object held) {
                semaphore.release((String) held);
            }
        };
    }
}
