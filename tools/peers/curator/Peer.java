import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.function.Supplier;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's recipes as peers; tools/peers/README.md says how they are spoken to. */
final class Peer {
    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        if (args.length < 8) {
            throw new IllegalArgumentException("usage: see tools/peers/README.md");
        }
        // zookeeper://HOST:PORT
        String servers = input.readLine().replaceFirst("^zookeeper://", "");
        int session = (int) Orders.ttlMs(60_000);
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                servers, session, 15_000, new ExponentialBackoffRetry(1000, 3));
        client.start();
        client.blockUntilConnected();
        String path = "/" + args[5];
        // Its classes are loaded by then.
        InterProcessMutex own = new InterProcessMutex(client, path + "-" + args[7]);
        own.acquire();
        own.release();
        switch (args[0]) {
            case "readers" -> {
                Supplier<InterProcessReadWriteLock> lock = () -> new InterProcessReadWriteLock(client, path);
                Readers.run(args, input, () -> of(lock.get().readLock()), () -> of(lock.get().writeLock()));
            }
            case "contention" -> Contention.run(args, input, () -> of(new InterProcessMutex(client, path)));
            case "semaphore" -> {
                int limit = Integer.parseInt(args[8]);
                Contention.run(args, input, () -> of(new InterProcessSemaphoreV2(client, path, limit)));
            }
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    static Wanted of(InterProcessMutex lock) {
        return new Wanted() {
            @Override
            public Object acquire() throws Exception {
                lock.acquire();
                return null;
            }

            @Override
            public void release(Object held) throws Exception {
                lock.release();
            }
        };
    }

    static Wanted of(InterProcessSemaphoreV2 semaphore) {
        return new Wanted() {
            @Override
            public Object acquire() throws Exception {
                return semaphore.acquire();
            }

            @Override
            public void release(Object held) {
                semaphore.returnLease((Lease) held);
            }
        };
    }
}
