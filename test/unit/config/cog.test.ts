import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type LoadedConfig, loadAppConfig, readAppConfig } from "../../../src/config/app-config.ts";
import { cogMain, describeCog } from "../../../src/config/cog.ts";
import { ConfigError } from "../../../src/config/problems.ts";
import { verifies } from "../../verifies.ts";

const host = { cpuCount: 4 };

function read(cog: string, toml?: string): LoadedConfig {
  return readAppConfig({
    host,
    cog,
    toml: toml === undefined ? undefined : { text: toml, fileName: "millrace.toml" },
  });
}

function problems(cog: string): readonly string[] {
  try {
    read(cog);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  throw new Error("it was accepted");
}

function told(cog: string, toml?: string): string | null {
  const { cog: model, config } = read(cog, toml);
  return model && describeCog(model, config);
}

const WHOLE = `
build:
  gpu: true
  cuda: "12.1"
  python_version: "3.11"
  python_packages:
    - torch==2.5.1
    - "transformers[sentencepiece]>=4.40,<5"
    - pillow
    - git+https://github.com/a/b@1234567
    - "own @ https://example.com/own-1.0-py3-none-any.whl"
    - 'uvloop==0.21 ; sys_platform == "linux"'
  system_packages:
    - ffmpeg
  run:
    - command: pip install flash-attn
      mounts: [{type: secret, id: pip, target: /etc/pip.conf}]
image: r8.im/somebody/something
predict: "predict.py:Predictor"
train: "train.py:train"
concurrency:
  max: 8
`;

verifies("cog.build", "packages, Python, GPU and concurrency of a cog.yaml configure the app", () => {
  const { config } = read(WHOLE);
  expect(config.dependencies.pip).toEqual({
    torch: "==2.5.1",
    "transformers[sentencepiece]": ">=4.40,<5",
    pillow: "",
    "git+https://github.com/a/b@1234567": "",
    own: "https://example.com/own-1.0-py3-none-any.whl",
    uvloop: '==0.21 ; sys_platform == "linux"',
  });
  expect(config.deployment.pythonVersion).toBe("3.11");
  expect([config.hardware.compute, config.hardware.gpuCount]).toEqual([["ANY"], 1]);
  expect(config.scaling.replicaConcurrency).toBe(8);
  expect(told(WHOLE)).toBe(
    "a Cog model: predict.py:Predictor, Python 3.11, 6 packages, a GPU, 8 calls at a time; " +
      "not used: build.cuda, build.system_packages, build.run, image, train",
  );
  expect(read("predict: p.py:P\nbuild:\n  python_version: 3.10\n").config.deployment.pythonVersion).toBe(
    "3.10",
  );
  expect(told("predict: p.py:P\nbuild:\n  python_requirements: requirements.txt\n")).toBe(
    "a Cog model: p.py:P, packages of requirements.txt",
  );
  const many = Array.from({ length: 25 }, (_, i) => `k${i}: 1`).join("\n");
  expect(told(`predict: p.py:P\n${many}`)).toMatch(
    /^a Cog model: p\.py:P; not used: k0, .*, k19, and 5 more$/,
  );
  // As `cog init` writes it.
  expect(
    told("build:\n  gpu: false\n  # system_packages:\n  system_packages:\n  run: []\npredict: p.py:P"),
  ).toBe("a Cog model: p.py:P");
});

verifies("cog.toml", "a millrace.toml beside it goes before the cog.yaml", () => {
  const toml =
    '[deployment]\npython_version = "3.12"\n[scaling]\nmin_replicas = 1\n[hardware]\ncompute = "H100"\n';
  const { config } = read(WHOLE, toml);
  expect([config.deployment.pythonVersion, config.scaling.minReplicas]).toEqual(["3.12", 1]);
  expect([config.hardware.compute, config.scaling.replicaConcurrency]).toEqual([["H100"], 8]);
  expect(told(WHOLE, toml)).toContain("Python 3.12");
});

describe("a cog.yaml that cannot be used", () => {
  verifies("cog.yaml", "is refused with what is wrong, and where", () => {
    expect(problems("predict: [")).toEqual([
      expect.stringMatching(/^cog\.yaml is not valid YAML: .* at line 1, column 11$/),
    ]);
    expect(problems("predict: p.py:P\npredict: q.py:Q")).toEqual([
      "cog.yaml is not valid YAML: Map keys must be unique at line 2, column 1",
    ]);
    expect(problems("- a")).toEqual(['cog.yaml must be a table with the keys build and predict, got ["a"]']);
    expect(problems("")).toHaveLength(1);
    expect(problems("build:\n  gpu: true\n")).toEqual([
      "cog.yaml has no key predict, which names the model's class, such as predict.py:Predictor",
    ]);
    expect(problems("predict: p.py:P\nrun: r.py:R")).toEqual([
      "cog.yaml has both predict and run: remove one of them",
    ]);
    const said = problems(
      "predict: ../p.py:P\nbuild:\n  python_version: two\n  gpu: 3\n  python_packages:\n    - --index-url x\n    - a==1\n    - a==2\nconcurrency: 4\n",
    ).join("\n");
    for (const part of [
      "cog.yaml: predict must be a Python file of this folder and a class",
      'cog.yaml: build.python_version must be a version such as "3.12", got "two"',
      "cog.yaml: build.gpu must be true or false, got 3",
      "each name in cog.yaml: build.python_packages must be a package name",
      "cog.yaml: build.python_packages has a twice: remove one of them",
      "cog.yaml: concurrency must be a table, got 4",
    ])
      expect(said).toContain(part);
    expect(problems("predict: p.py:P\nbuild: {python_packages: numpy}")).toEqual([
      'cog.yaml: build.python_packages must be a list of up to 1000 requirements such as numpy==2.1.0, got "numpy"',
    ]);
  });

  test.each([
    "/p.py:P",
    "a/../../p.py:P",
    'p".py:P',
    "p.py:P\n",
    "p.py:1",
    "p.py",
    "p.txt:P",
    `${"a".repeat(300)}.py:P`,
  ])("names no file of the folder: %j", (reference) => {
    expect(problems(`predict: ${JSON.stringify(reference)}`)).toEqual([
      expect.stringMatching(/^cog\.yaml: predict must be a Python file/),
    ]);
  });

  const deep = "[".repeat(200);
  const bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"];
  for (let i = 1; i < 9; i++)
    bomb.push(
      `a${i}: &a${i} [${Array(10)
        .fill(`*a${i - 1}`)
        .join(", ")}]`,
    );
  test.each([
    ["lists nested 200 deep", deep + "]".repeat(200)],
    ["unclosed lists nested 200 deep", deep],
    ["unclosed tables nested 200 deep", "{a: ".repeat(200)],
    ["lists nested 10,000 deep", "[".repeat(10_000)],
    ["lists in lists on one line", "- ".repeat(8_000)],
    ["tables as keys", Array.from({ length: 2_000 }, () => "? a\n: ").join("")],
    ["a file of a megabyte", `predict: p.py:P\n${"#\n".repeat(500_000)}`],
    ["a bomb of aliases", bomb.join("\n")],
    ["an alias of itself", "build: &a [*a]\npredict: *a"],
    ["a control character", 'predict: "a\u0000"'],
    ["a tag of another language", "predict: !!python/object/apply:os.system [ls]"],
  ])("is a problem, not a crash: %s", (_, text) => {
    expect(problems(text).length).toBeGreaterThan(0);
  });

  test("pollutes nothing", () => {
    const { config } = read(
      "predict: p.py:P\n__proto__: {polluted: true}\nbuild: {python_packages: ['__proto__']}",
    );
    expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
    expect(Object.keys(config.dependencies.pip)).toEqual(["__proto__"]);
  });
});

describe("a folder", () => {
  const root = mkdtempSync(path.join(tmpdir(), "millrace-cog-"));
  afterAll(() => rmSync(root, { recursive: true }));
  const folder = (name: string, files: Readonly<Record<string, string>>): string => {
    const dir = path.join(root, name);
    mkdirSync(dir);
    for (const [file, text] of Object.entries(files)) writeFileSync(path.join(dir, file), text);
    return dir;
  };

  verifies("cog.folder", "is a Cog model if it has a cog.yaml, and neither main.py nor a server", () => {
    const yaml = "predict: predict.py:Predictor\n";
    const plain = folder("plain", { "cog.yaml": yaml, "predict.py": "" });
    const { cog, warnings } = loadAppConfig(plain, { host });
    expect([cog?.file, cog?.name, warnings]).toEqual(["predict.py", "Predictor", []]);
    expect(cog && cogMain(cog)).toContain('setup, run = serve("predict.py", "Predictor")\n');

    // It is not even read.
    const own = loadAppConfig(folder("own", { "cog.yaml": "#".repeat(70_000), "main.py": "" }), { host });
    expect([own.cog, own.warnings]).toEqual([
      null,
      ["cog.yaml is not used, because the folder has a main.py: rename that to deploy the Cog model"],
    ]);
    const toml = '[runtime.custom]\nentrypoint = ["python", "server.py"]\n';
    const server = loadAppConfig(folder("server", { "cog.yaml": ": [", "millrace.toml": toml }), { host });
    expect([server.cog, server.warnings]).toEqual([null, []]);
    expect(() => loadAppConfig(folder("empty", { "cog.yaml": yaml }), { host })).toThrow(
      "cog.yaml names predict.py, but the folder has no such file",
    );
  });
});
