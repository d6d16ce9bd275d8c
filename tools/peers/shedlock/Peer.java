import com.zaxxer.hikari.HikariDataSource;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider.Configuration;
import org.springframework.jdbc.core.JdbcTemplate;

/** ShedLock's table as a peer; tools/peers/README.md says how it is spoken to. */
final class Peer {
    static final Duration TTL = Duration.ofMillis(Orders.ttlMs(30_000));
    /** ShedLock never waits: a task asks again after this time. */
    static final long PAUSE_MS = 50;

    static final ScheduledExecutorService EXTENDS = Executors.newScheduledThreadPool(1, run -> {
        Thread thread = new Thread(run);
        thread.setDaemon(true);
        return thread;
    });

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        if (args.length < 8 || !args[0].equals("contention")) {
            throw new IllegalArgumentException("usage: see tools/peers/README.md");
        }
        URI server = URI.create(input.readLine());
        String[] user = server.getUserInfo().split(":");
        String driver = server.getScheme().equals("mysql") ? "mariadb" : "postgresql";
        HikariDataSource pool = new HikariDataSource();
        pool.setJdbcUrl("jdbc:" + driver + "://" + server.getAuthority().split("@")[1] + server.getPath());
        pool.setUsername(user[0]);
        pool.setPassword(user[1]);
        pool.setMaximumPoolSize(4);
        JdbcTemplate jdbc = new JdbcTemplate(pool);
        boolean extended = args[3].equals("extended");
        // Its classes are loaded by then.
        Wanted own = of(jdbc, args[5] + "-" + args[7], args[7] + "/own", extended);
        own.release(own.acquire());
        int[] tasks = {0};
        Contention.run(args, input, () -> of(jdbc, args[5], args[7] + "/" + ++tasks[0], extended));
    }

    /** All processes are on one host, which ShedLock tells apart by the host's name alone. */
    static Wanted of(JdbcTemplate jdbc, String name, String holder, boolean extended) {
        JdbcTemplateLockProvider provider = new JdbcTemplateLockProvider(Configuration.builder()
                .withJdbcTemplate(jdbc).usingDbTime().withLockedByValue(holder).build());
        return new Wanted() {
            @Override
            public Object acquire() throws Exception {
                while (true) {
                    Optional<SimpleLock> lock =
                            provider.lock(new LockConfiguration(Instant.now(), name, TTL, Duration.ZERO));
                    if (lock.isPresent()) {
                        return new Held(lock.get(), extended);
                    }
                    Thread.sleep(PAUSE_MS);
                }
            }

            @Override
            public void release(Object held) {
                ((Held) held).end();
            }
        };
    }

    /** A lock that is held, and extended if that is wanted. */
    static final class Held {
        final AtomicReference<SimpleLock> lock;
        final ScheduledFuture<?> extending;

        Held(SimpleLock lock, boolean extended) {
            this.lock = new AtomicReference<>(lock);
            long pause = TTL.toMillis() / 3;
            extending = extended
                    ? EXTENDS.scheduleAtFixedRate(this::extend, pause, pause, TimeUnit.MILLISECONDS)
                    : null;
        }

        synchronized void extend() {
            lock.set(lock.get().extend(TTL, Duration.ZERO)
                    .orElseThrow(() -> new IllegalStateException("the lock cannot be extended")));
        }

        synchronized void end() {
            if (extending != null) {
                extending.cancel(false);
            }
            lock.get().unlock();
        }
    }
}
