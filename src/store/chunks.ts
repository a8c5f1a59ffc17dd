// Far fewer than the 32,766 parameters that SQLite takes in a statement.
const CHUNK = 1_000;

/** Ids in lists that are short enough for one statement. */
export function chunks<Item>(items: readonly Item[]): Item[][] {
  return Array.from({ length: Math.ceil(items.length / CHUNK) }, (_, i) =>
    items.slice(i * CHUNK, (i + 1) * CHUNK),
  );
}
