import { describe, expect, test } from "vitest";
import { newestWheel } from "../../../../src/apps/builds/pip-wheel.ts";

const PAGE = "https://user:word@index.test/simple/pip/";
const HASH = "0123456789abcdef".repeat(4);

function link(file: string, attributes = "", hash = `#sha256=${HASH}`): string {
  return `<a href="../../files/${file}${hash}" ${attributes}>${file}</a>`;
}

describe("the newest pip of an index page", () => {
  test("is chosen by number, not by text or place", () => {
    const html = ["9.0.3", "24.0", "23.3.2", "24.0.1"]
      .map((v) => link(`pip-${v}-py3-none-any.whl`))
      .join("\n");
    expect(newestWheel(html, PAGE, "3.11.7")).toEqual({
      url: "https://user:word@index.test/files/pip-24.0.1-py3-none-any.whl",
      version: [24, 0, 1],
      sha256: HASH,
    });
  });

  test("runs on the Python at hand, is final, not withdrawn, and has a hash", () => {
    const html = [
      link("pip-21.0-py3-none-any.whl", 'data-requires-python="&gt;=3.6"'),
      link("pip-25.0-py3-none-any.whl", 'data-requires-python=">=3.12"'),
      link("pip-26.0b1-py3-none-any.whl"),
      link("pip-27.0-py3-none-any.whl", 'data-yanked=""'),
      link("pip-28.0-py3-none-any.whl", "", ""),
      link("pip-29.0.tar.gz"),
      link("pip-30.0-py3-none-any.whl", "data-requires-python='!=3.11.*,&gt;=3.7'"),
      link("pip-20.3.4-py2.py3-none-any.whl", 'data-requires-python="&gt;=2.7,!=3.0.*"'),
    ].join("\n");
    expect(newestWheel(html, PAGE, "3.11.7")?.version).toEqual([21, 0]);
    expect(newestWheel(html, PAGE, "3.12.0")?.version).toEqual([30, 0]);
    expect(newestWheel(html, PAGE, "3.5.0")?.version).toEqual([20, 3, 4]);
    expect(newestWheel("<html></html>", PAGE, "3.11.7")).toBeNull();
  });

  test("a password goes to the index alone", () => {
    const html = `<a href="https://files.test/pip-24.0-py3-none-any.whl#sha256=${HASH}">pip</a>`;
    expect(newestWheel(html, PAGE, "3.11.7")?.url).toBe("https://files.test/pip-24.0-py3-none-any.whl");
  });
});
