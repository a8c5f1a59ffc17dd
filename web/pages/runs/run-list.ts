/** A thing of a list; ids grow with time. */
type Listed = { readonly id: string };

/** A page of a list, newest first; the token is empty where there are no older ones. */
type Page<Item> = { readonly items: readonly Item[]; readonly nextToken: string };

/** The runs that are shown, newest first. */
export type RunList<Item extends Listed> = {
  readonly rows: readonly Item[];
  /** Where older ones go on; empty at the end, null before the first page has come. */
  readonly olderToken: string | null;
  /** How many newer ones wait to be shown. */
  readonly waiting: number;
  /** There are more of those than one page holds. */
  readonly isMoreWaiting: boolean;
  /** Somebody went back in time: what is new is added, where otherwise the newest page is enough. */
  readonly hasOlder: boolean;
  /** The page that came last. */
  readonly newest: Page<Item> | null;
};

export type ListEvent<Item> =
  | {
      readonly kind: "newest";
      readonly page: Page<Item>;
      readonly isAtTop: boolean;
      /** It holds as many as a page may: between it and what is shown there may be more. */
      readonly isFull: boolean;
    }
  | { readonly kind: "older"; readonly page: Page<Item> }
  | { readonly kind: "show" };

/** More are not kept: a page that is left open must not grow. */
export const MAX_ROWS = 1_000;

export const EMPTY_LIST: RunList<never> = {
  rows: [],
  olderToken: null,
  waiting: 0,
  isMoreWaiting: false,
  hasOlder: false,
  newest: null,
};

/**
 * The list after something came. Whoever reads further down sees the states change and nothing move: what is new waits
 * until it is asked for.
 */
export function nextList<Item extends Listed>(list: RunList<Item>, event: ListEvent<Item>): RunList<Item> {
  switch (event.kind) {
    case "newest":
      return event.isAtTop || list.olderToken === null
        ? withNewest(list, event.page, event.isFull)
        : holdingBack(list, event.page);
    case "older":
      return withOlder(list, event.page);
    case "show":
      return list.newest ? withNewest(list, list.newest, list.isMoreWaiting) : list;
    default:
      return event satisfies never;
  }
}

function withNewest<Item extends Listed>(
  list: RunList<Item>,
  page: Page<Item>,
  isFull: boolean,
): RunList<Item> {
  const last = page.items.at(-1);
  // A search may find nothing among the newest, and what it looks for further back.
  const older = last ? list.rows.filter(({ id }) => id < last.id) : list.rows;
  const isJoined = last === undefined || !isFull || list.rows.some(({ id }) => id === last.id);
  const rows = [...page.items, ...older];
  if (!list.hasOlder || !isJoined || rows.length > MAX_ROWS) {
    return { ...EMPTY_LIST, rows: page.items, olderToken: page.nextToken, newest: page };
  }
  return { ...list, rows, waiting: 0, isMoreWaiting: false, newest: page };
}

function holdingBack<Item extends Listed>(list: RunList<Item>, page: Page<Item>): RunList<Item> {
  const first = list.rows[0];
  const known = new Map(page.items.map((run) => [run.id, run]));
  const fresh = page.items.filter(({ id }) => first === undefined || id > first.id);
  return {
    ...list,
    rows: list.rows.map((run) => known.get(run.id) ?? run),
    waiting: fresh.length,
    isMoreWaiting: fresh.length === page.items.length && page.nextToken !== "",
    newest: page,
  };
}

function withOlder<Item extends Listed>(list: RunList<Item>, page: Page<Item>): RunList<Item> {
  const last = list.rows.at(-1);
  const older = page.items.filter(({ id }) => last === undefined || id < last.id);
  return { ...list, rows: [...list.rows, ...older], olderToken: page.nextToken, hasOlder: true };
}
