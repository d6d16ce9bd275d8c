import java.io.BufferedReader;
import java.util.List;
import java.util.function.Supplier;

/** Follows the orders that tools/peers/README.md names. */
final class Orders {
    /** What happens now counts. */
    static volatile boolean marked;
    static volatile boolean ended;

    /** The usual time to live, or what the environment says instead. */
    static long ttlMs(long usual) {
        String ms = System.getenv("PEER_TTL_MS");
        return ms == null ? usual : Long.parseLong(ms);
    }

    /** Says that it is ready, starts the tasks when it hears so, and reports at the end. */
    static void follow(BufferedReader input, List<? extends Thread> tasks, Supplier<String> report)
            throws Exception {
        System.out.println("ready");
        for (String order = input.readLine(); order != null; order = input.readLine()) {
            switch (order) {
                case "begin" -> tasks.forEach(Thread::start);
                case "mark" -> marked = true;
                case "enough" -> marked = false;
                case "end" -> {
                    ended = true;
                    System.out.println(report.get());
                    System.out.flush();
                    // Tasks that wait would do so for long.
                    Runtime.getRuntime().halt(0);
                }
                default -> throw new IllegalArgumentException(order);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    static void hold(long holdUs) throws InterruptedException {
        if (holdUs > 0) {
            Thread.sleep(holdUs / 1000, (int) (holdUs % 1000) * 1000);
        }
    }

    /** Ends the process, unless it is at its end already. */
    static void fail(Throwable error) {
        if (!ended) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }
}
