import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { writeVariables } from "../../../../src/host/containers/start-container.ts";
import { verifies } from "../../../verifies.ts";

verifies(
  "images.variables",
  "values go by a file, those of several lines by harmless names alone",
  async () => {
    const folder = await mkdtemp(path.join(tmpdir(), "millrace-variables-"));
    onTestFinished(async () => await rm(folder, { recursive: true }));
    const file = path.join(folder, "variables");
    const long = "é".repeat(40_000);
    const passed = await writeVariables(file, {
      PLAIN: "a b",
      EMPTY: "",
      MARKED: "# 'x' \"y\"",
      LD_PRELOAD: "/one/line.so",
      PEM: "first\nsecond",
      LONG: long,
      GOOGLE_CREDENTIALS: "{\n}",
      PATH: "/bin\n/evil",
      GCONV_PATH: "\n:/evil",
      LD_LIBRARY_PATH: "/a\n/b",
      DOCKER_HOST: "unix:///x\ny",
      https_proxy: "http://a\nb",
      "not a name": "x",
      ZERO: "a\0b",
    });
    expect(passed).toEqual({
      args: ["--env-file", file, "--env", "PEM", "--env", "LONG", "--env", "GOOGLE_CREDENTIALS"],
      env: { PEM: "first\nsecond", LONG: long, GOOGLE_CREDENTIALS: "{\n}" },
      withheld: ["PATH", "GCONV_PATH", "LD_LIBRARY_PATH", "DOCKER_HOST", "https_proxy"],
    });
    expect(await readFile(file, "utf8")).toBe(
      "PLAIN=a b\nEMPTY=\nMARKED=# 'x' \"y\"\nLD_PRELOAD=/one/line.so\n",
    );
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  },
);
