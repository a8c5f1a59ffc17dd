import { describe, expect, test } from "vitest";
import { EMPTY_LIST, MAX_ROWS, nextList, type RunList } from "../../../web/pages/runs/run-list.ts";

type Run = { readonly id: string; readonly status: string };

/** Runs whose ids are numbers, newest first. */
function page(from: number, to: number, nextToken = "more", status = "success") {
  const items: Run[] = [];
  for (let number = from; number >= to; number -= 1) {
    items.push({ id: String(number).padStart(6, "0"), status });
  }
  return { items, nextToken };
}

function numbers({ rows }: RunList<Run>): number[] {
  return rows.map(({ id }) => Number(id));
}

const FIRST = nextList<Run>(EMPTY_LIST, { kind: "newest", page: page(10, 6), isAtTop: true, isFull: true });

describe("a list of runs", () => {
  test("at the top it is the newest page, and where that ends older ones go on", () => {
    const list = nextList(FIRST, { kind: "newest", page: page(12, 8, "other"), isAtTop: true, isFull: true });
    expect([numbers(list), list.olderToken, list.waiting]).toEqual([[12, 11, 10, 9, 8], "other", 0]);
  });

  test("further down nothing moves: states change, and what is new waits until it is asked for", () => {
    const list = nextList(FIRST, {
      kind: "newest",
      page: page(12, 8, "more", "failure"),
      isAtTop: false,
      isFull: true,
    });
    expect([numbers(list), list.waiting, list.isMoreWaiting]).toEqual([[10, 9, 8, 7, 6], 2, false]);
    expect(list.rows.map(({ status }) => status === "failure")).toEqual([true, true, true, false, false]);
    const shown = nextList(list, { kind: "show" });
    expect([numbers(shown), shown.waiting]).toEqual([[12, 11, 10, 9, 8], 0]);
  });

  test("more new ones than a page holds are not counted as all", () => {
    const list = nextList(FIRST, { kind: "newest", page: page(30, 26), isAtTop: false, isFull: true });
    expect([list.waiting, list.isMoreWaiting]).toEqual([5, true]);
  });

  test("who went back in time keeps the older ones while new ones join them without a gap", () => {
    const older = nextList(FIRST, { kind: "older", page: page(5, 1, "") });
    expect([numbers(older).length, older.olderToken]).toEqual([10, ""]);
    const joined = nextList(older, { kind: "newest", page: page(12, 8), isAtTop: true, isFull: true });
    expect(numbers(joined)).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    const apart = nextList(older, { kind: "newest", page: page(30, 26), isAtTop: true, isFull: true });
    expect([numbers(apart), apart.olderToken]).toEqual([[30, 29, 28, 27, 26], "more"]);
  });

  test("a search that finds nothing among the newest goes on from where it was", () => {
    const none = page(0, 1, "newest");
    const begun = nextList<Run>(EMPTY_LIST, { kind: "newest", page: none, isAtTop: true, isFull: true });
    const further = nextList(begun, { kind: "older", page: page(0, 1, "further") });
    const asked = nextList(further, { kind: "newest", page: none, isAtTop: true, isFull: true });
    expect([numbers(asked), asked.olderToken]).toEqual([[], "further"]);
    const found = nextList(asked, { kind: "older", page: page(3, 2, "end") });
    const still = nextList(found, { kind: "newest", page: none, isAtTop: true, isFull: true });
    expect([numbers(still), still.olderToken]).toEqual([[3, 2], "end"]);
  });

  test("what comes while a search is far back is added: nothing between was left out", () => {
    const begun = nextList<Run>(EMPTY_LIST, {
      kind: "newest",
      page: page(0, 1),
      isAtTop: true,
      isFull: false,
    });
    const found = nextList(begun, { kind: "older", page: page(3, 3, "further") });
    const list = nextList(found, { kind: "newest", page: page(9, 9), isAtTop: true, isFull: false });
    expect([numbers(list), list.olderToken]).toEqual([[9, 3], "further"]);
  });

  test("a list that is left open does not grow", () => {
    let list = nextList(FIRST, { kind: "older", page: page(5, 1) });
    for (let newest = 11; newest < 3 * MAX_ROWS; newest += 1) {
      list = nextList(list, { kind: "newest", page: page(newest, newest - 4), isAtTop: true, isFull: true });
      expect(list.rows.length).toBeLessThanOrEqual(MAX_ROWS);
    }
  });
});
