import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's locks as peers; tools/peers/README.md says how they are spoken to. */
final class Peer {
    static volatile boolean marked;
    static volatile boolean ended;
    static long holdUs;
    static int process;
    /** One for the whole process: a second would lose its locks when the first is closed. */
    static FileChannel file;

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        if (args.length == 5 && args[0].equals("pairs")) {
            Pairs.run(args, input);
            return;
        }
        if (args.length != 8 || !args[0].equals("contention")) {
            throw new IllegalArgumentException("usage: see tools/peers/README.md");
        }
        int number = Integer.parseInt(args[2]);
        holdUs = Long.parseLong(args[4]);
        file = FileChannel.open(Path.of(args[6]), StandardOpenOption.READ, StandardOpenOption.WRITE);
        process = Integer.parseInt(args[7]);
        Config config = new Config();
        config.useSingleServer().setAddress(input.readLine());
        RedissonClient client = Redisson.create(config);
        List<Task> tasks = new ArrayList<>();
        for (int at = 1; at <= number; at++) {
            boolean fair = args[3].equals("fair");
            tasks.add(new Task(fair ? client.getFairLock(args[5]) : client.getLock(args[5]), at));
        }
        // Its classes are loaded by then.
        RLock own = client.getLock(args[5] + "/" + process);
        own.lock();
        own.unlock();
        System.out.println("ready");
        for (String order = input.readLine(); order != null; order = input.readLine()) {
            switch (order) {
                case "begin" -> tasks.forEach(Thread::start);
                case "mark" -> marked = true;
                case "enough" -> marked = false;
                case "end" -> {
                    ended = true;
                    System.out.println(report(tasks));
                    System.out.flush();
                    // Tasks that wait would do so for long.
                    Runtime.getRuntime().halt(0);
                }
                default -> throw new IllegalArgumentException(order);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    static String report(List<Task> tasks) {
        long now = System.nanoTime();
        Function<Function<Task, LongStream>, String> list = of ->
                tasks.stream().flatMapToLong(of::apply).mapToObj(Long::toString)
                        .collect(Collectors.joining(",", "[", "]"));
        Function<ToLongFunction<Task>, Long> sum = of -> tasks.stream().mapToLong(of).sum();
        return "{\"counts\":" + list.apply(task -> LongStream.of(task.count))
                + ",\"waits_us\":" + list.apply(task -> LongStream.of(task.waits()))
                + ",\"unfinished_us\":" + list.apply(task -> task.unfinished(now))
                + ",\"handoffs\":" + sum.apply(task -> task.handoffs)
                + ",\"local\":" + sum.apply(task -> task.local)
                + ",\"visits\":" + sum.apply(task -> task.visits)
                + ",\"overlaps\":" + sum.apply(task -> task.overlaps)
                + ",\"fallen\":0}";
    }

    static final class Task extends Thread {
        final RLock lock;
        final int number;
        final List<Long> waits = new ArrayList<>();
        volatile long asked;
        volatile long count, handoffs, local, visits, overlaps;

        Task(RLock lock, int number) {
            this.lock = lock;
            this.number = number;
            setDaemon(true);
        }

        @Override
        public void run() {
            while (!ended) {
                asked = System.nanoTime();
                lock.lock();
                long waited = (System.nanoTime() - asked) / 1000;
                asked = 0;
                try (FileLock alone = enter(waited)) {
                    if (holdUs > 0) {
                        Thread.sleep(holdUs / 1000, (int) (holdUs % 1000) * 1000);
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
                lock.unlock();
            }
        }

        /** Asks the judge whether nobody else is inside; null when somebody is. */
        FileLock enter(long waited) throws Exception {
            boolean counts = marked;
            if (counts) {
                count++;
            }
            visits++;
            FileLock alone;
            try {
                alone = file.tryLock();
            } catch (OverlappingFileLockException error) {
                alone = null;
            }
            if (alone == null) {
                overlaps++;
                return null;
            }
            ByteBuffer last = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
            file.read(last, 0);
            ByteBuffer now = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
            now.putInt(process).putInt(number).flip();
            file.write(now, 0);
            int before = last.getInt(0);
            if (counts && before != 0 && (before != process || last.getInt(4) != number)) {
                synchronized (waits) {
                    waits.add(waited);
                }
                handoffs++;
                if (before == process) {
                    local++;
                }
            }
            return alone;
        }

        long[] waits() {
            synchronized (waits) {
                return waits.stream().mapToLong(Long::longValue).toArray();
            }
        }

        LongStream unfinished(long now) {
            long since = asked;
            return since == 0 ? LongStream.empty() : LongStream.of((now - since) / 1000);
        }
    }
}
