import { expect, test } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
def types(value):
    return [type(value).__name__, value]

def pair(first: int, second: int = 2, *, third=3):
    return [first, second, third]

def annotated(count: int, flag: bool = False):
    return [type(count).__name__, type(flag).__name__]

def positional(a, b, /, c):
    return [a, b, c]

def positional_default(a, b=5, /, c=6):
    return [a, b, c]

def all_optional(a=1, b=2, c=3, /, d=4):
    return [a, b, c, d]

def anything(**kwargs):
    return kwargs

def some(a, **rest):
    return [a, rest]

def named_run(run_id, x=1):
    return [run_id, x]

def named_run_and_rest(run_id, **rest):
    return [run_id, rest]

def nothing():
    return "nothing"

def wanting(a, b, c=1):
    return [a, b, c]

def varargs(*args, key=1):
    return [list(args), key]

async def later(a, b=2):
    return [a, b]
`;

const service = sharedService({
  bind: { main: MAIN },
  lenient: { main: MAIN, toml: '[deployment]\nextra_params = "ignore"\n' },
});

async function result(functionName: string, body: unknown, app = "bind"): Promise<unknown> {
  const answer = await service().call(app, body, { functionName });
  expect(answer.text).toContain('"result"');
  return answer.json.result;
}

verifies("run.body.keywords", "members become keyword arguments, in any order", async () => {
  expect(await result("pair", { third: 30, first: 10 })).toEqual([10, 2, 30]);
  expect(await result("pair", { second: 20, first: 10 })).toEqual([10, 20, 3]);
  expect(await result("positional", { c: 3, b: 2, a: 1 })).toEqual([1, 2, 3]);
  expect(await result("positional_default", { a: 1, c: 3 })).toEqual([1, 5, 3]);
  expect(await result("all_optional", { b: 20, d: 40 })).toEqual([1, 20, 3, 40]);
  expect(await result("all_optional", { c: 30 })).toEqual([1, 2, 30, 4]);
  expect(await result("varargs", { key: 2 })).toEqual([[], 2]);
  expect(await result("later", { a: 1 })).toEqual([1, 2]);
});

verifies("run.body.no-coercion", "each argument arrives as the type JSON gave it", async () => {
  for (const [value, type] of [
    ["1", "str"],
    [1, "int"],
    [1.5, "float"],
    [true, "bool"],
    [null, "NoneType"],
    [[1], "list"],
    [{ a: 1 }, "dict"],
    ["ünï ✓ 🙂", "str"],
  ] as const) {
    expect(await result("types", { value })).toEqual([type, value]);
  }
  expect((await service().call("bind", '{"value":1.0}', { functionName: "types" })).text).toContain(
    '"result":["float",1.0]',
  );
  // An annotation is a word for readers, not a conversion.
  expect(await result("annotated", { count: "1", flag: 0 })).toEqual(["str", "int"]);
});

verifies("run.body.integers", "an integer of 4,300 digits arrives exact and comes back exact", async () => {
  const long = `9${"1234567890".repeat(430).slice(1)}`;
  const answer = await service().call("bind", `{"value":${long}}`, { functionName: "types" });
  expect(long.length).toBe(4300);
  expect(answer.text).toContain(`"result":["int",${long}]`);
  const negative = await service().call("bind", `{"value":-${long}}`, { functionName: "types" });
  expect(negative.text).toContain(`"result":["int",-${long}]`);
});

verifies("run.body.integers.too-long", "an integer of 4,301 digits is 400", async () => {
  const answer = await service().call("bind", `{"value":${"9".repeat(4301)}}`, { functionName: "types" });
  expect(answer.status).toBe(400);
});

verifies("show.big-integer", "9007199254740993 goes through unchanged both ways", async () => {
  const body = '{"value":9007199254740993}';
  const answer = await service().call("bind", body, { functionName: "types" });
  expect(answer.text).toContain('"result":["int",9007199254740993]');
  const nested = await service().call("bind", `{"x":[{"y":9007199254740993}]}`, {
    functionName: "anything",
  });
  expect(nested.text).toContain('"result":{"x":[{"y":9007199254740993}]}');
});

verifies("run.body.run-id", "a parameter named run_id is filled in, and only by the service", async () => {
  const answer = await service().call("bind", { x: 4 }, { functionName: "named_run" });
  expect(answer.json.result).toEqual([answer.json.run_id, 4]);
  const rest = await service().call("bind", { y: 1 }, { functionName: "named_run_and_rest" });
  expect(rest.json.result).toEqual([rest.json.run_id, { y: 1 }]);
  for (const functionName of ["named_run", "named_run_and_rest"]) {
    const forged = await service().call("bind", { run_id: "mine" }, { functionName });
    expect([forged.status, forged.json.details]).toEqual([422, [{ field: "run_id", problem: "unknown" }]]);
  }
});

verifies("run.body.missing", "every missing member is named in the 422", async () => {
  const answer = await service().call("bind", { c: 5 }, { functionName: "wanting" });
  expect(answer.status).toBe(422);
  expect(answer.json.details).toEqual([
    { field: "a", problem: "missing" },
    { field: "b", problem: "missing" },
  ]);
  const later = await service().call("bind", { b: 5 }, { functionName: "later" });
  expect([later.status, later.json.details]).toEqual([422, [{ field: "a", problem: "missing" }]]);
});

verifies(
  "run.body.unknown",
  "every unknown member is named in the 422, beside the missing ones",
  async () => {
    const answer = await service().call("bind", { b: 1, zeta: 1, alpha: 1 }, { functionName: "wanting" });
    expect(answer.status).toBe(422);
    expect(answer.json.details).toEqual([
      { field: "a", problem: "missing" },
      { field: "alpha", problem: "unknown" },
      { field: "zeta", problem: "unknown" },
    ]);
    expect((await service().call("bind", { x: 1 }, { functionName: "nothing" })).status).toBe(422);
    // *args takes no member: a JSON object has no positions.
    expect((await service().call("bind", { args: [1] }, { functionName: "varargs" })).status).toBe(422);
  },
);

verifies(
  ["run.body.missing", "run.body.unknown", "run.body.async-422"],
  "a sync call and an async one are told the same, whatever the parameters",
  async () => {
    const bodies = [{}, { a: 1 }, { x: 1, é: 2, "": 3 }, { run_id: "mine" }, { run_id: "mine", a: 1, zz: 2 }];
    const names = [...MAIN.matchAll(/def (\w+)/g)].map(([, name = ""]) => name);
    let refused = 0;
    for (const app of ["bind", "lenient"]) {
      for (const functionName of names) {
        for (const body of bodies) {
          const [sync, async] = await Promise.all(
            ["", "?async=true"].map((suffix) => service().call(app, body, { functionName, suffix })),
          );
          if (sync?.status !== 422) {
            expect([functionName, body, async?.status]).toEqual([functionName, body, 202]);
            continue;
          }
          const { message, code, details } = sync.json;
          expect(async?.json).toMatchObject({ message, code, details });
          refused += 1;
        }
      }
    }
    expect(refused).toBeGreaterThan(40);
  },
);

verifies("run.body.kwargs", "**kwargs takes all members", async () => {
  expect(await result("anything", { a: 1, "not a name": 2, "": 3, class: 4 })).toEqual({
    a: 1,
    "not a name": 2,
    "": 3,
    class: 4,
  });
  expect(await result("some", { a: 1, b: 2 })).toEqual([1, { b: 2 }]);
  const answer = await service().call("bind", { b: 2 }, { functionName: "some" });
  expect(answer.json.details).toEqual([{ field: "a", problem: "missing" }]);
});

verifies("run.body.extra-ignored", 'extra_params = "ignore" drops unknown members only', async () => {
  expect(await result("wanting", { a: 1, b: 2, z: 3 }, "lenient")).toEqual([1, 2, 1]);
  expect(await result("some", { a: 1, z: 3 }, "lenient")).toEqual([1, { z: 3 }]);
  const forged = await service().call("lenient", { run_id: "mine" }, { functionName: "named_run" });
  expect(forged.json.result).toEqual([forged.json.run_id, 1]);
  const answer = await service().call("lenient", { z: 3 }, { functionName: "wanting" });
  expect(answer.status).toBe(422);
  expect(answer.json.details).toHaveLength(2);
});

verifies("run.body.none", "no body is {} and needs no content type", async () => {
  const response = await fetch(service().url("bind", "nothing"), {
    method: "POST",
    headers: { authorization: `Bearer ${service().service.owner.token}` },
  });
  expect([response.status, await response.json()]).toMatchObject([200, { result: "nothing" }]);
  const missing = await fetch(service().url("bind", "wanting"), {
    method: "POST",
    headers: { authorization: `Bearer ${service().service.owner.token}` },
  });
  expect(missing.status).toBe(422);
});

test("white space around the object, and a body of many megabytes, reach the function whole", async () => {
  expect(await result("types", ' \n{ "value" : 1 }\r\n\t')).toEqual(["int", 1]);
  const text = "x".repeat(3 * 1024 * 1024);
  const answer = await service().call("bind", { value: text }, { functionName: "types" });
  expect(answer.json.result[1].length).toBe(text.length);
});
