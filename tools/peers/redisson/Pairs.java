import java.io.BufferedReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.stream.IntStream;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** The job pairs: each thread acquires and releases a lock of its own, over all the servers. */
final class Pairs {
    static void run(String[] args, BufferedReader input) throws Exception {
        List<RedissonClient> clients = new ArrayList<>();
        for (String url : input.readLine().split(" ")) {
            Config config = new Config();
            config.useSingleServer().setAddress(url);
            clients.add(Redisson.create(config));
        }
        boolean fresh = args[3].equals("fresh");
        AtomicLongArray counts = new AtomicLongArray(Integer.parseInt(args[2]));
        for (int at = 0; at < counts.length(); at++) {
            String name = String.format("%s/%08d", args[4], at);
            int mine = at;
            Thread task = new Thread(() -> again(clients, name, fresh, counts, mine));
            task.setDaemon(true);
            task.start();
        }
        while (IntStream.range(0, counts.length()).anyMatch(at -> counts.get(at) == 0)) {
            Thread.sleep(5);
        }
        System.out.println("ready");
        while (input.readLine() != null) {
            System.out.println(IntStream.range(0, counts.length()).mapToLong(counts::get).sum());
        }
        // The tasks never end.
        Runtime.getRuntime().halt(0);
    }

    static void again(
            List<RedissonClient> clients, String name, boolean fresh, AtomicLongArray counts, int at) {
        try {
            RLock lock = over(clients, name);
            for (long number = 1; ; number++) {
                if (fresh) {
                    lock = over(clients, String.format("%s/%010d", name, number));
                }
                lock.lock();
                lock.unlock();
                counts.incrementAndGet(at);
            }
        } catch (RuntimeException error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    /** Deprecated, but the only one of its locks that a majority is enough for. */
    @SuppressWarnings("deprecation")
    static RLock over(List<RedissonClient> clients, String name) {
        return new RedissonRedLock(
                clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new));
    }
}
