import { expect, test } from "vitest";
import { renderPages } from "../../../scripts/guide/render.ts";
import { searchIndex } from "../../../scripts/guide/search-index.ts";
import { readSources } from "../../../scripts/guide/sources.ts";
import { type IndexedSection, searchGuide } from "../../../web/guide/search.ts";
import { verifies } from "../../verifies.ts";

/** A section for users, without tables. */
function section(url: string, page: string, heading: string, text: string): IndexedSection {
  return { url, page, heading, text, names: [], isForContributors: false };
}

const SECTIONS: readonly IndexedSection[] = [
  section("api.html", "The run endpoint", "The run endpoint", "You may cancel a run."),
  section("api.html#cancel", "The run endpoint", "Cancel", "POST to the run's address ends it."),
  section("logs.html", "Logs", "Logs", "A catalogue of lines <b>."),
];

/** What newcomers ask, and the section that answers it. */
const QUESTIONS = {
  "What is a replica?": "concepts.html#replica",
  "What does concurrency mean?": "concepts.html#concurrency",
  "How do I deploy my first app?": "first-app.html#deploy-it",
  "How do I get a token?": "first-app.html#get-a-token",
  "How do I set environment variables?": "first-app.html#secrets-and-environment-variables",
  "How do I roll back a bad version?": "first-app.html#roll-back",
  "How do I install pip packages?": "packages.html#install-python-packages",
  "Which Python version does my app get?": "packages.html#choose-a-python-version",
  "How do I serve a language model with vLLM?": "models.html#serve-a-language-model-with-vllm",
  "Where do I put the weights of a model?": "models.html#weights",
  "Can two models share one GPU?": "gpus.html#sharing-a-gpu",
  "How do I avoid cold starts?": "scaling.html#avoid-cold-starts",
  "How long may a run take?": "scaling.html#how-long-a-run-may-take",
  "How do I run a job every night?": "scaling.html#a-nightly-job",
  "How do I stream from a function?": "api.html#streams",
  "How do I call an app from Python?": "clients.html#python",
  "Can I deploy a FastAPI server?": "examples.html#fastapi",
  "How do I send a million inputs?": "batches.html",
  "How do I install it on a server with TLS?": "install.html#on-a-server-with-systemd-and-tls",
  "How do I run it on a Mac with Docker?": "install.html#with-docker",
  "How do I deploy from GitHub Actions?": "ci.html#github-actions",
  "How do I make a backup?": "operations.html#backup",
  "How do I move from Modal?": "modal.html#a-program-on-modal",
  "How are apps isolated from each other?": "security.html",
  "What does the error queue_full mean?": "errors.html",
  "How do I limit the memory of an app?": "operations.html#limits-of-apps",
};

verifies("guide.search", "the best match of the documents comes first, by heading, title and text", () => {
  const index = searchIndex(renderPages(readSources()));
  const urls = (query: string): string[] => searchGuide(index, query).map(({ url }) => url);
  expect(urls("cancel")[0]).toBe("api.html#cancel");
  expect(urls("webhooks")[0]).toBe("webhooks.html");
  expect(urls("response_grace_period")[0]).toBe("config.html#app-configuration");
  expect(urls("MILLRACE_HOST")[0]).toBe("config.html#for-every-installation");
  expect(urls("queue_full")[0]).toBe("errors.html");
  expect(urls("backup restore")).toContainEqual(expect.stringContaining("operations.html"));
  expect(urls("xyzzy")).toEqual([]);
});

verifies("guide.questions", "what a newcomer asks is answered by the first result", () => {
  const index = searchIndex(renderPages(readSources()));
  const answers = Object.keys(QUESTIONS).map((question) => [question, searchGuide(index, question)[0]?.url]);
  expect(answers.length).toBeGreaterThanOrEqual(20);
  expect(Object.fromEntries(answers)).toEqual(QUESTIONS);
});

test("a heading goes before text, other forms of a word count, and words that tell nothing do not", () => {
  const urls = (query: string): string[] => searchGuide(SECTIONS, query).map(({ url }) => url);
  expect(urls("cancel")).toEqual(["api.html#cancel", "api.html"]);
  expect(urls("How may I CANCEL it?")).toEqual(["api.html#cancel", "api.html"]);
  expect(urls("cancels run")[0]).toBe("api.html#cancel");
  expect(urls("catalogue, plugh, xyzzy")).toEqual([]);
  expect(urls("may")).toEqual(["api.html"]);
  expect(urls("  ")).toEqual([]);
  expect(urls(" ?! ")).toEqual([]);
});

test("pages for contributors come after those for users", () => {
  const guide = section("guide.html", "Nodes", "Leases", "A lease of a node");
  const decision = { ...guide, url: "decision.html", isForContributors: true };
  expect(searchGuide([decision, guide], "lease").map(({ url }) => url)).toEqual([
    "guide.html",
    "decision.html",
  ]);
});

test("an excerpt shows what matched, as text and at any place of a long section", () => {
  const [found] = searchGuide(SECTIONS, "lines cat");
  expect(found?.excerpt).toEqual([
    { text: "A ", isMatch: false },
    { text: "cat", isMatch: true },
    { text: "alogue of ", isMatch: false },
    { text: "lines", isMatch: true },
    { text: " <b>.", isMatch: false },
  ]);
  const text = `${"before ".repeat(50)}needle${" after".repeat(50)}`;
  const long = section("x.html", "X", "X", text);
  const pieces = searchGuide([long], "needle")[0]?.excerpt ?? [];
  expect([pieces[0]?.text, pieces.at(-1)?.text]).toEqual(["…", "…"]);
  expect(pieces.filter(({ isMatch }) => isMatch)).toEqual([{ text: "needle", isMatch: true }]);
});
