import { expect } from "vitest";
import { zipOf } from "../../support/zip.ts";
import { DeployClient } from "../../support/deploy-client.ts";
import { runningId } from "../../support/run-apps.ts";
import { openStream } from "../../support/stream-reader.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { deployFolder, MODEL } from "./site.ts";

const service = sharedService();

/** Waits until an app has printed a line. */
async function said(line: string | RegExp): Promise<void> {
  const fits = (text: string): boolean => (typeof line === "string" ? text === line : line.test(text));
  await until(`${line} is printed`, () => service().logs.some(({ text }) => fits(text)));
}

const YAML = 'predict: "predict.py:Predictor"\n';

const STREAMS = `
import tempfile

from cog import BasePredictor, ConcatenateIterator, Input, Path


class Predictor(BasePredictor):
    def predict(self, words: int = Input(default=3, le=5), as_files: bool = False) -> ConcatenateIterator[str]:
        try:
            for number in range(words):
                if as_files:
                    path = Path(tempfile.mkdtemp()) / "word.txt"
                    path.write_text("word %d" % number)
                    yield path
                else:
                    yield "word %d " % number
        finally:
            print("closed")
`;

verifies("cog.streams", "an iterator streams, its files too, and its bounds are checked before", async () => {
  const app = await deployFolder(service(), "streams", { "cog.yaml": YAML, "predict.py": STREAMS });
  const read = async (body: object): Promise<string[]> =>
    (await openStream(service(), app, body).ended()).messages.map(({ data }) => data);
  expect(await read({})).toEqual(["word 0 ", "word 1 ", "word 2 "]);
  expect(await read({ words: 1, as_files: true })).toEqual(["data:text/plain;base64,d29yZCAw"]);
  await said("closed");
  const refused = await service().call(app, { words: 6 });
  expect([refused.status, refused.json.message]).toEqual([422, "words must be at most 5"]);
  const document = await service().call(app, "", { functionName: "openapi.json", method: "GET" });
  const { content } = document.json.paths["/run"].post.responses["200"];
  expect(content["text/event-stream"]["x-item-schema"]).toEqual({ type: "string" });
});

const ASYNC = `
import asyncio

from cog import AsyncConcatenateIterator, BasePredictor, Input, Path


class Predictor(BasePredictor):
    async def setup(self) -> None:
        self.ready = asyncio.Event()

    async def predict(self, image: Path = None, opens: bool = False, times: int = Input(default=1, ge=1)) -> str:
        if opens:
            self.ready.set()
        await self.ready.wait()
        return (image.read_text() if image else "nothing") * times


class Streamer(BasePredictor):
    async def predict(self, upto: int = Input(le=4)) -> AsyncConcatenateIterator[str]:
        try:
            for number in range(upto):
                yield str(number)
                await asyncio.sleep(0)
        finally:
            print("streamer closed")
`;

verifies(
  "cog.async",
  "async models take calls at the same time, as many as concurrency.max says",
  async () => {
    const files = { "cog.yaml": `${YAML}concurrency:\n  max: 4\n`, "predict.py": ASYNC };
    const app = await deployFolder(service(), "async", files);
    const waiting = service().call(app, { image: "data:text/plain,hi", times: 2 });
    await runningId(service(), app, "run");
    expect((await service().call(app, { opens: true })).json.result).toBe("nothing");
    expect((await waiting).json.result).toBe("hihi");
    const refused = await service().call(app, { times: 0 });
    expect([refused.status, refused.json.message]).toEqual([422, "times must be at least 1"]);

    const streamer = await deployFolder(service(), "streamer", {
      ...files,
      "cog.yaml": 'run: "predict.py:Streamer"\n',
    });
    const { messages } = await openStream(service(), streamer, { upto: 4 }).ended();
    expect(messages.map(({ data }) => data)).toEqual(["0", "1", "2", "3"]);
    await said("streamer closed");
    const late = await service().call(streamer, { upto: 5 });
    expect([late.status, late.json.message]).toEqual([422, "upto must be at most 4"]);
  },
);

verifies(
  "cog.errors",
  "what a model raises is an error of the app, told without our own frames",
  async () => {
    const app = await deployFolder(service(), "raising", {
      "cog.yaml": 'predict: "code/model.py:predict"\n',
      "code/model.py": "import beside\n\ndef predict(n: int) -> int:\n    return beside.half(n)\n",
      "code/beside.py": 'def half(n):\n    if n % 2:\n        raise ValueError("odd")\n    return n // 2\n',
    });
    expect((await service().call(app, { n: 4 })).json.result).toBe(2);
    const { status, json } = await service().call(app, { n: 3 });
    expect([status, json.code, json.message]).toEqual([500, "app_error", "ValueError: odd"]);
    await said("ValueError: odd");
    const told = service().logs.filter(({ runId }) => runId === json.request_id);
    const text = told.map((line) => line.text).join("\n");
    expect(text).toContain('File "code/model.py", line 4, in predict');
    expect(text).not.toContain("millrace_cog");
  },
);

const CANCELLED = `
import time

from cog import BasePredictor, CancelationException


class Predictor(BasePredictor):
    def predict(self) -> str:
        try:
            while True:
                time.sleep(0.005)
        except CancelationException:
            print("tidied up")
            raise
`;

verifies("cog.cancel", "a cancel reaches a model as Cog's own exception", async () => {
  const app = await deployFolder(service(), "cancelled", { "cog.yaml": YAML, "predict.py": CANCELLED });
  const call = service().call(app);
  const runId = await runningId(service(), app, "run");
  await service().ofRun(app, runId, "cancel", { method: "POST" });
  expect((await call).json.code).toBe("cancelled");
  await said("tidied up");
});

verifies(
  "cog.own",
  "an app's own cog module is imported in place of Millrace's, and its log says so",
  async () => {
    const app = await deployFolder(service(), "own-cog", {
      "cog.yaml": YAML,
      "cog/__init__.py": `
class BasePredictor:
    pass

class FieldInfo:
    def __init__(self, **facts):
        self.default, self.description, self.metadata = facts.get("default", ...), "", [Bound(**facts)]

class Bound:
    def __init__(self, ge=None, choices=None, **_):
        self.ge, self.choices = ge, choices

Input = FieldInfo
`,
      "predict.py": `
from cog import BasePredictor, Input

class Predictor(BasePredictor):
    def predict(self, n: int = Input(default=2, ge=1)) -> int:
        return n
`,
    });
    expect((await service().call(app)).json.result).toBe(2);
    expect((await service().call(app, { n: 0 })).json.message).toBe("n must be at least 1");
    await said(/^\[millrace\] import cog finds the app's own: .*cog/);
  },
);

verifies("cog.deploy", "a deploy says what it took the folder for, and what of it is not used", async () => {
  const { service: running } = service();
  const { projectId, token } = running.owner;
  const client = new DeployClient({ baseUrl: running.baseUrl, projectId, token }, "told");
  const yaml = `${YAML}build:\n  gpu: false\n  system_packages: [ffmpeg]\n  run:\n    - echo hi\nimage: r8.im/a/b\n`;
  const { buildId, status } = await client.deploy(await zipOf({ ...MODEL, "cog.yaml": yaml }));
  expect([status, await client.log(buildId)]).toEqual([
    "success",
    expect.arrayContaining([
      "a Cog model: predict.py:Predictor; not used: build.system_packages, build.run, image",
      expect.stringMatching(/^ready after .*: run$/),
    ]),
  ]);
  const broken = await client.deploy(await zipOf({ ...MODEL, "cog.yaml": "build:\n  - a\n b: [" }));
  expect([broken.status, (await client.list())[0]?.message]).toEqual([
    "build_failure",
    expect.stringMatching(/^cog\.yaml is not valid YAML: .* at line 3, column 1/),
  ]);
  const odd = "class Predictor:\n    def predict(self, when: complex):\n        pass\n";
  const unfit = await client.deploy(await zipOf({ "cog.yaml": YAML, "predict.py": odd }));
  expect([unfit.status, (await client.list())[0]?.message]).toEqual([
    "init_failure",
    expect.stringMatching(
      /^TypeError: predict\(\) has an input when of type complex, which has no form in JSON/,
    ),
  ]);
});
