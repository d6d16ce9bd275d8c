import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** jetcd's lock as a peer; tools/peers/README.md says how it is spoken to. */
final class Peer {
    /** Of a lease, in seconds. */
    static final long TTL = Orders.ttlMs(10_000) / 1000;

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        if (args.length < 8 || !args[0].equals("contention")) {
            throw new IllegalArgumentException("usage: see tools/peers/README.md");
        }
        String server = input.readLine().replaceFirst("^etcd://", "http://");
        Client client = Client.builder().endpoints(server).build();
        ByteSequence name = ByteSequence.from(args[5], StandardCharsets.UTF_8);
        // Its classes are loaded by then.
        Wanted own = of(client, ByteSequence.from(args[5] + "-" + args[7], StandardCharsets.UTF_8));
        own.release(own.acquire());
        Contention.run(args, input, () -> of(client, name));
    }

    /** Each task has a lease of its own: two locks of one lease would be one. */
    static Wanted of(Client client, ByteSequence name) {
        long lease;
        try {
            lease = client.getLeaseClient().grant(TTL).get().getID();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        client.getLeaseClient().keepAlive(lease, new StreamObserver<LeaseKeepAliveResponse>() {
            @Override
            public void onNext(LeaseKeepAliveResponse response) {}

            @Override
            public void onError(Throwable error) {
                Orders.fail(error);
            }

            @Override
            public void onCompleted() {}
        });
        return new Wanted() {
            @Override
            public Object acquire() throws Exception {
                return client.getLockClient().lock(name, lease).get().getKey();
            }

            @Override
            public void release(Object held) throws Exception {
                client.getLockClient().unlock((ByteSequence) held).get();
            }
        };
    }
}
