import { expect } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import functools
from os.path import basename, join
from subprocess import run
from lib import helper, listed, request

__all__ = ["listed", "missing", "basename"]

def defined():
    return "defined"

def decorate(function):
    @functools.wraps(function)
    def wrapper(**kwargs):
        return {"wrapped": function(**kwargs)}
    return wrapper

@decorate
def decorated(x):
    return x

class Model:
    def __call__(self):
        return "an instance is not a function"

model = Model()
constant = 7
_renamed = defined

def _private():
    return "never"

alias = lambda: "a lambda is a function"
`;

const LIB = `
def helper():
    return "never"

def listed(n=1):
    return ["listed", n]

class Proxy:
    def __call__(self):
        return "never"

    def __getattr__(self, name):
        raise RuntimeError("working outside of a request")

request = Proxy()
`;

const service = sharedService({ names: { main: MAIN, files: { "lib.py": LIB } } });

async function status(functionName: string, body: unknown = {}): Promise<number> {
  return (await service().call("names", body, { functionName })).status;
}

verifies("run.callable.defined", "a function that main.py defines is called", async () => {
  const answer = await service().call("names", {}, { functionName: "defined" });
  expect(answer.json).toMatchObject({ result: "defined" });
  const wrapped = await service().call("names", { x: 5 }, { functionName: "decorated" });
  expect(wrapped.json).toMatchObject({ result: { wrapped: 5 } });
  expect(await status("alias")).toBe(200);
});

verifies("run.callable.all", "an imported function is called once __all__ lists it", async () => {
  const answer = await service().call("names", { n: 2 }, { functionName: "listed" });
  expect(answer.json).toMatchObject({ result: ["listed", 2] });
  const standard = await service().call("names", { p: "a/b" }, { functionName: "basename" });
  expect(standard.json).toMatchObject({ result: "b" });
  expect(await status("missing")).toBe(404);
});

verifies("run.callable.imported", "an imported function that __all__ does not list is 404", async () => {
  expect(await status("helper")).toBe(404);
  expect(await status("join", { a: "x" })).toBe(404);
  expect(await status("functools")).toBe(404);
  // Its attributes are not asked for: they would raise, and the app would not start.
  expect(await status("request")).toBe(404);
});

verifies("run.callable.class", "a class and an instance of it are 404", async () => {
  expect(await status("Model")).toBe(404);
  expect(await status("model")).toBe(404);
  expect(await status("constant")).toBe(404);
});

verifies("run.callable.underscore", "a name that starts with _ is 404", async () => {
  expect(await status("_private")).toBe(404);
  expect(await status("_renamed")).toBe(404);
  expect(await status("__init__")).toBe(404);
});

verifies("show.subprocess-run", "`from subprocess import run` makes nothing callable", async () => {
  const answer = await service().call("names", { args: ["touch", "proof"] });
  expect(answer.status).toBe(404);
  expect(answer.json).toMatchObject({ code: "function_not_found" });
});

verifies(
  ["run.callable.imported", "run.callable.underscore", "show.subprocess-run"],
  "the first call ever, before any replica has told its functions, is 404 as well",
  async () => {
    for (const name of ["helper", "_private", "run"]) {
      const app = `fresh${name.replace("_", "-")}`;
      await service().deploy(app, { main: MAIN, files: { "lib.py": LIB } });
      expect((await service().call(app, {}, { functionName: name })).status).toBe(404);
    }
  },
);
