/** What a task wants, through a library's client: a lock, a permit, one side of a read-write lock. */
interface Wanted {
    /** Waits for it, and returns what release gets. */
    Object acquire() throws Exception;

    void release(Object held) throws Exception;
}
