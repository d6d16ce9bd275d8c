import java.io.BufferedReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;

/** The job readers: all tasks read or write under one lock; tools/peers/README.md has the words. */
final class Readers {
    /** A task looks at the clock and at the record at one of so many reads, and at every write. */
    static final int LOOK = 16;

    static long holdUs;
    static int reads;
    static FileChannel file;

    /** What the arguments say. */
    static void run(String[] args, BufferedReader input, Supplier<Wanted> read, Supplier<Wanted> write)
            throws Exception {
        holdUs = Long.parseLong(args[4]);
        file = FileChannel.open(Path.of(args[6]), StandardOpenOption.READ, StandardOpenOption.WRITE);
        reads = Integer.parseInt(args[8]);
        List<Task> tasks = new ArrayList<>();
        for (int at = 1; at <= Integer.parseInt(args[2]); at++) {
            long seed = Long.parseLong(args[7]) << 32 | at;
            tasks.add(new Task(read.get(), write.get(), seed));
        }
        Orders.follow(input, tasks, () -> report(tasks));
    }

    static String report(List<Task> tasks) {
        long now = System.nanoTime();
        Function<ToLongFunction<Task>, Long> sum = of -> tasks.stream().mapToLong(of).sum();
        Function<Function<Task, List<Long>>, String> list = of ->
                tasks.stream().flatMap(task -> of.apply(task).stream()).map(Object::toString)
                        .collect(Collectors.joining(",", "[", "]"));
        return "{\"reads\":" + sum.apply(task -> task.reads)
                + ",\"writes\":" + sum.apply(task -> task.writes)
                + ",\"read_waits_us\":" + list.apply(task -> copy(task.readWaits))
                + ",\"write_waits_us\":" + list.apply(task -> copy(task.writeWaits))
                + ",\"unfinished_us\":" + list.apply(task -> task.unfinished(now))
                + ",\"looks\":" + sum.apply(task -> task.looks)
                + ",\"overlaps\":" + sum.apply(task -> task.overlaps)
                + ",\"fallen\":0}";
    }

    static List<Long> copy(List<Long> waits) {
        synchronized (waits) {
            return List.copyOf(waits);
        }
    }

    static final class Task extends Thread {
        final Wanted read;
        final Wanted write;
        final SplittableRandom draw;
        final List<Long> readWaits = new ArrayList<>();
        final List<Long> writeWaits = new ArrayList<>();
        volatile long asksToWrite;
        volatile long reads, writes, looks, overlaps;

        Task(Wanted read, Wanted write, long seed) {
            this.read = read;
            this.write = write;
            draw = new SplittableRandom(seed);
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                while (!Orders.ended) {
                    if (draw.nextInt(100) >= Readers.reads) {
                        write();
                    } else {
                        read(draw.nextInt(LOOK) == 0);
                    }
                }
            } catch (Exception error) {
                Orders.fail(error);
            }
        }

        void read(boolean look) throws Exception {
            long asked = System.nanoTime();
            Object held = read.acquire();
            long waited = (System.nanoTime() - asked) / 1000;
            ByteBuffer before = look ? record() : null;
            Orders.hold(holdUs);
            if (look) {
                ByteBuffer after = record();
                long number = before.getLong(0);
                looked(before.getLong(8) == number && after.getLong(0) == number
                        && after.getLong(8) == number);
            }
            read.release(held);
            if (Orders.marked) {
                reads++;
                if (look) {
                    add(readWaits, waited);
                }
            }
        }

        void write() throws Exception {
            long asked = System.nanoTime();
            asksToWrite = asked;
            Object held = write.acquire();
            asksToWrite = 0;
            long waited = (System.nanoTime() - asked) / 1000;
            ByteBuffer before = record();
            long number = before.getLong(0) + 1;
            set(0, number);
            Orders.hold(holdUs);
            ByteBuffer after = record();
            set(8, number);
            looked(before.getLong(8) == number - 1 && after.getLong(0) == number
                    && after.getLong(8) == number - 1);
            write.release(held);
            if (Orders.marked) {
                writes++;
                add(writeWaits, waited);
            }
        }

        void looked(boolean apart) {
            looks++;
            if (!apart) {
                overlaps++;
            }
        }

        static void add(List<Long> waits, long waited) {
            synchronized (waits) {
                waits.add(waited);
            }
        }

        static ByteBuffer record() throws Exception {
            ByteBuffer record = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN);
            file.read(record, 0);
            return record;
        }

        static void set(long at, long number) throws Exception {
            ByteBuffer bytes = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
            bytes.putLong(number).flip();
            file.write(bytes, at);
        }

        List<Long> unfinished(long now) {
            long since = asksToWrite;
            return since == 0 ? List.of() : List.of((now - since) / 1000);
        }
    }
}
