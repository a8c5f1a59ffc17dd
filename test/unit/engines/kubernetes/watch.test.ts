import { expect, onTestFinished } from "vitest";
import { KubernetesApi, describeTrouble } from "../../../../src/engines/kubernetes/api.ts";
import { Watch } from "../../../../src/engines/kubernetes/watch.ts";
import { Condition } from "../../../../src/kit/concurrency.ts";
import { SkippingClock } from "../../../support/clocks.ts";
import { type Asked, PlayedApi } from "../../../support/kubernetes/played-api.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";

const named = (name: string, resourceVersion: string) => ({ metadata: { name, resourceVersion } });
const nameOf = (object: unknown): string => (object as { metadata: { name: string } }).metadata.name;

/** A watch of a played API; what it tells comes as lines. */
async function watched() {
  const played = await PlayedApi.open();
  const clock = new SkippingClock();
  const told: string[] = [];
  const news = new Condition();
  const tell = (line: string): void => {
    told.push(line);
    news.notify();
  };
  const api = new KubernetesApi(played.access);
  const watch = new Watch(
    { api, clock, path: "/api/v1/namespaces/apps/pods", labelSelector: "a=b" },
    {
      onListing: () => tell("listing"),
      onList: (objects) => tell(`list ${objects.map(nameOf).join(" ")}`),
      onChange: (change, object) => tell(`${change} ${nameOf(object)}`),
      onTrouble: (error) => tell(error === null ? "runs" : "trouble"),
    },
  );
  onTestFinished(async () => {
    await watch.stop();
    api.close();
  });
  /** The next request, past the pauses between tries. */
  const next = async (): Promise<Asked> => {
    const asked = played.next();
    let isHere = false;
    void asked.then(() => (isHere = true));
    await until("the next request", () => {
      if (!isHere) clock.skip(5_000);
      return isHere;
    });
    return await asked;
  };
  const hears = async (line: string): Promise<void> => await until(line, () => told.at(-1) === line, news);
  return { next, told, hears };
}

verifies("kubernetes.watch", "a list in pages, then a watch from its version on", async () => {
  const { next, told, hears } = await watched();
  const first = await next();
  expect(first.path).toBe("/api/v1/namespaces/apps/pods");
  expect(first.token).toBe("Bearer t0ken");
  expect([first.query.get("labelSelector"), first.query.get("continue")]).toEqual(["a=b", null]);
  first.answer(200, { metadata: { resourceVersion: "7", continue: "page 2" }, items: [named("a", "3")] });
  const second = await next();
  expect(second.query.get("continue")).toBe("page 2");
  second.answer(200, { metadata: { resourceVersion: "7" }, items: [named("b", "5")] });
  const watch = await next();
  expect(watch.query.get("watch")).toBe("1");
  expect(watch.query.get("allowWatchBookmarks")).toBe("true");
  expect(watch.query.get("resourceVersion")).toBe("7");
  watch.tell("ADDED", named("c", "8"));
  await hears("ADDED c");
  expect(told).toEqual(["listing", "list a b", "runs", "ADDED c"]);
});

verifies("kubernetes.watch", "a watch that was cut goes on where it was, bookmarks included", async () => {
  const { next, told, hears } = await watched();
  (await next()).answer(200, { metadata: { resourceVersion: "1" }, items: [] });
  const first = await next();
  first.tell("MODIFIED", named("a", "4"));
  await hears("MODIFIED a");
  first.cut();
  const second = await next();
  expect(second.query.get("resourceVersion")).toBe("4");
  second.tell("BOOKMARK", { metadata: { resourceVersion: "9" } });
  second.end();
  const third = await next();
  expect(third.query.get("resourceVersion")).toBe("9");
  third.answer(503, {});
  const fourth = await next();
  expect(fourth.query.get("resourceVersion")).toBe("9");
  fourth.tell("DELETED", named("a", "10"));
  await hears("DELETED a");
  expect(told.filter((line) => line === "listing")).toHaveLength(1);
});

verifies("kubernetes.watch", "410 Gone leads to a new list, as an answer and as an event", async () => {
  const { next, told, hears } = await watched();
  (await next()).answer(200, { metadata: { resourceVersion: "1" }, items: [named("a", "1")] });
  (await next()).answer(410, { code: 410, reason: "Expired" });
  const again = await next();
  expect(again.query.get("watch")).toBeNull();
  again.answer(200, { metadata: { resourceVersion: "20" }, items: [named("b", "2")] });
  const watch = await next();
  expect(watch.query.get("resourceVersion")).toBe("20");
  watch.tell("ERROR", { kind: "Status", code: 410, reason: "Gone" });
  (await next()).answer(200, { metadata: { resourceVersion: "30" }, items: [] });
  await hears("list ");
  expect(told.filter((line) => line.startsWith("list "))).toEqual(["list a", "list b", "list "]);
});

verifies("kubernetes.watch", "what is no list and no event is tried again, and said", async () => {
  const { next, told } = await watched();
  (await next()).answer(200, { nonsense: true });
  (await next()).answer(200, { metadata: { resourceVersion: "1" }, items: [] });
  const watch = await next();
  watch.tell("ADDED", named("x".repeat(1_000), "2"));
  watch.cut();
  expect((await next()).query.get("watch")).toBe("1");
  expect(told).toContain("trouble");
});

verifies("kubernetes.bounded", "a list without end is given up, and begun anew", async () => {
  const { next, told, hears } = await watched();
  const endless = { metadata: { resourceVersion: "1", continue: "more" }, items: [] };
  for (let pages = 0; pages < 100; pages += 1) (await next()).answer(200, endless);
  await hears("trouble");
  const anew = await next();
  expect(anew.query.get("continue")).toBeNull();
  expect(told).toEqual(["listing", "trouble", "listing"]);
});

verifies(
  "kubernetes.bounded",
  "an answer that never ends is given up, however much of it comes",
  async () => {
    const played = await PlayedApi.open();
    const api = new KubernetesApi(played.access, 300);
    onTestFinished(() => api.close());
    const answer = api.ask({ method: "GET", path: "/" }).then(
      () => "an answer",
      (error: unknown) => describeTrouble(error),
    );
    const asked = await played.next();
    let isOver = false;
    const drip = (): void => void (isOver || (asked.drip(" "), setImmediate(drip)));
    drip();
    expect(await answer).toContain("the Kubernetes API cannot be reached");
    isOver = true;
  },
);
