import java.io.BufferedReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

/** The jobs contention and semaphore: all tasks want the same; tools/peers/README.md has the words. */
final class Contention {
    static long holdUs;
    static int process;
    static Path notes;
    /** Of each slot one, for the whole process: a second would lose its locks when the first is closed. */
    static FileChannel[] files;

    /** What the arguments say. */
    static void run(String[] args, BufferedReader input, Supplier<Wanted> wanted) throws Exception {
        holdUs = Long.parseLong(args[4]);
        files = new FileChannel[args.length > 8 ? Integer.parseInt(args[8]) : 1];
        for (int slot = 0; slot < files.length; slot++) {
            Path path = Path.of(slot == 0 ? args[6] : args[6] + "." + slot);
            files[slot] = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE);
        }
        notes = Path.of(args[6] + ".notes");
        process = Integer.parseInt(args[7]);
        List<Task> tasks = new ArrayList<>();
        for (int at = 1; at <= Integer.parseInt(args[2]); at++) {
            tasks.add(new Task(wanted.get(), at));
        }
        Orders.follow(input, tasks, () -> report(tasks));
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
        final Wanted wanted;
        final int number;
        final List<Long> waits = new ArrayList<>();
        volatile long asked;
        volatile long count, handoffs, local, visits, overlaps;

        Task(Wanted wanted, int number) {
            this.wanted = wanted;
            this.number = number;
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                while (!Orders.ended) {
                    asked = System.nanoTime();
                    Object held = wanted.acquire();
                    long waited = (System.nanoTime() - asked) / 1000;
                    asked = 0;
                    try (FileLock alone = enter(waited)) {
                        Orders.hold(holdUs);
                    }
                    wanted.release(held);
                }
            } catch (Exception error) {
                Orders.fail(error);
            }
        }

        /** Takes the first slot that no other holder has; null when all are taken. */
        FileLock enter(long waited) throws Exception {
            boolean counts = Orders.marked;
            if (counts) {
                count++;
            }
            visits++;
            for (FileChannel file : files) {
                FileLock alone;
                try {
                    alone = file.tryLock();
                } catch (OverlappingFileLockException error) {
                    alone = null;
                }
                if (alone != null) {
                    enter(file, counts, waited);
                    return alone;
                }
            }
            overlaps++;
            // At once: the process may be killed before its report.
            Files.write(notes, new byte[] {'o'}, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            return null;
        }

        /** Writes itself into the file of its slot, and reads who was there before. */
        void enter(FileChannel file, boolean counts, long waited) throws Exception {
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
