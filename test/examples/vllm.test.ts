import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, vi } from "vitest";
import { scratchDirectory } from "../support/command-line.ts";
import { ReaderHome } from "../support/example-folders.ts";
import { sharedService } from "../support/shared-service.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { wheelsOf } from "../support/wheels.ts";
import { verifies } from "../verifies.ts";

/** As much of PyTorch as tells the size of the GPUs. */
const TORCH = `
from types import SimpleNamespace

cuda = SimpleNamespace(
    device_count=lambda: 1,
    get_device_properties=lambda gpu: SimpleNamespace(total_memory=80 * 2**30),
)
`;
const QUESTION = "What is a millrace?";

// A GPU that does not exist: the replica is granted a part of it.
const service = sharedService({}, { gpus: "fake:1xH100:80" });
const home = new ReaderHome(mkdtempSync(path.join(tmpdir(), "millrace-vllm-")));

beforeAll(() => {
  const programs = path.join(home.folder, "programs");
  const program = path.join(programs, "vllm");
  mkdirSync(programs);
  writeFileSync(program, `#!/bin/sh\nexec python3 '${REPOSITORY}/test/examples/vllm.py' "$@"\n`);
  chmodSync(program, 0o755);
  vi.stubEnv("PATH", `${programs}${path.delimiter}${process.env["PATH"]}`);
});
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(home.folder, { recursive: true, force: true });
});

verifies(
  ["examples.models", "docs.blocks"],
  "vllm serves OpenAI's client, and takes no more of the GPU than its share",
  async () => {
    home.withoutPackages("vllm", { "torch.py": TORCH });
    const [deployed, models = "", said = ""] = await home.tryReadme("vllm", service());
    expect(deployed).toContain("vllm is deployed");
    expect(JSON.parse(models)).toMatchObject({ data: [{ id: "Qwen/Qwen3-8B", max_model_len: 16_384 }] });
    expect(JSON.parse(said)).toMatchObject({ choices: [{ message: { content: QUESTION } }] });
    const started = service().logs.find(({ text }) => text.startsWith("vllm serve"))?.text ?? "";
    // 30 GB, without what CUDA takes, of 80 GiB.
    expect(started).toMatch(
      /^vllm serve Qwen\/Qwen3-8B --host 127\.0\.0\.1 --port \d+ --max-model-len 16384 --gpu-memory-utilization 0\.343 --tensor-parallel-size 1$/,
    );

    const { apiUrl, owner } = service().service;
    const baseURL = `${apiUrl}/v4/${owner.projectId}/vllm/v1`;
    const client = new OpenAI({ baseURL, apiKey: owner.token, maxRetries: 0 });
    const asked = { model: "Qwen/Qwen3-8B", messages: [{ role: "user" as const, content: QUESTION }] };
    let text = "";
    for await (const chunk of await client.chat.completions.create({
      ...asked,
      max_tokens: 2,
      stream: true,
    })) {
      text += chunk.choices[0]?.delta.content ?? "";
    }
    expect(text).toBe("What is");
    await expect(client.chat.completions.create({ ...asked, model: "other" })).rejects.toThrow(
      "404 The model `other` does not exist.",
    );
  },
);

verifies("examples.models", "vllm serves another model with the whole GPU, or without any", async () => {
  const { baseUrl, owner } = service().service;
  const secrets = { MODEL: "meta-llama/Llama-3.1-8B-Instruct", MAX_MODEL_LEN: "2048" };
  await fetch(`${baseUrl}/v2/projects/${owner.projectId}/secrets`, {
    method: "PATCH",
    headers: { authorization: `Bearer ${owner.token}`, "content-type": "application/json" },
    body: JSON.stringify(secrets),
  });
  const started = async (hardware: string, name: string): Promise<string> => {
    const folder = home.withoutPackages("vllm", { "torch.py": TORCH });
    const toml = path.join(folder, "millrace.toml");
    const runtime = '[runtime.custom]\nentrypoint = ["python", "main.py"]\nreadycheck_endpoint = "/health"\n';
    writeFileSync(toml, `[deployment]\nname = "${name}"\n${hardware}${runtime}`);
    await service().service.install(folder);
    const { json } = await service().call(name, "", { functionName: "v1/models", method: "GET" });
    expect(json.data).toMatchObject([{ id: secrets.MODEL, max_model_len: 2048 }]);
    return service().logs.findLast(({ text }) => text.startsWith("vllm serve"))?.text ?? "";
  };
  expect(await started("", "none")).toMatch(/ --max-model-len 2048$/);
  expect(await started('[hardware]\ncompute = "ANY"\n', "whole")).toMatch(
    / --gpu-memory-utilization 0\.900 --tensor-parallel-size 1$/,
  );
});

const PYTHON = `
import sys
from openai import OpenAI

client = OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
model = client.models.list().data[0].id
said = {"model": model, "messages": [{"role": "user", "content": "What is a millrace?"}]}
whole = client.chat.completions.create(**said)
chunks = list(client.chat.completions.create(**said, stream=True))
print(whole.choices[0].message.content, whole.usage.total_tokens)
print("".join(chunk.choices[0].delta.content or "" for chunk in chunks))
`;

verifies("examples.models", "vllm serves the Python client of OpenAI as well", async (context) => {
  const wheels = await wheelsOf("openai");
  context.skip(wheels === null, "NOT TESTED: the Python package openai cannot be had here");
  const folder = scratchDirectory();
  const python = path.join(folder, "bin", "python");
  const run = promisify(execFile);
  await run("python3", ["-m", "venv", folder]);
  const install = ["-m", "pip", "install", "--quiet", "--no-index", "--find-links", String(wheels), "openai"];
  await run(python, install);
  const { apiUrl, owner } = service().service;
  home.withoutPackages("vllm", { "torch.py": TORCH });
  await service().service.install(path.join(home.folder, "examples/vllm"));
  const args = ["-c", PYTHON, `${apiUrl}/v4/${owner.projectId}/vllm/v1`, owner.token];
  const { stdout } = await run(python, args);
  expect(stdout).toBe(`${QUESTION} 8\n${QUESTION}\n`);
});
