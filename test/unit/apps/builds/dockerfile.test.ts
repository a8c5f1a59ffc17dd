import { expect } from "vitest";
import { dockerfileFor, type ImageLayers } from "../../../../src/apps/builds/images/dockerfile.ts";
import { verifies } from "../../../verifies.ts";

const PLAIN: ImageLayers = {
  base: "debian:12",
  apt: [],
  before: [],
  after: [],
  requirements: null,
  needsApp: false,
  bundle: "bundle",
  user: null,
};

/** The lines, each by its first word and what tells it from others. */
function linesOf(layers: Partial<ImageLayers>): string[] {
  const marks =
    /venv|apt-get install -y --no-install-recommends 'ffmpeg'|pip install|COPY.*|echo \w+|version_info/;
  return dockerfileFor({ ...PLAIN, ...layers })
    .trim()
    .split("\n")
    .flatMap(
      (line) =>
        marks
          .exec(line)?.[0]
          .replace(/apt-get.*/, "apt")
          .replace(/COPY.*cortex.*/, "app") ?? [],
    );
}

verifies("images.recipe", "what changes least comes first, and the app before whatever needs it", () => {
  const all = { apt: ["ffmpeg"], requirements: "bundle.aside/requirements.txt", after: ["echo after"] };
  const listed = 'COPY ["bundle.aside/requirements.txt","/opt/millrace/requirements.txt"]';
  expect(linesOf(all)).toEqual([
    "venv",
    "venv",
    "version_info",
    "apt",
    listed,
    "pip install",
    "app",
    "echo after",
  ]);
  const early = [
    "venv",
    "venv",
    "version_info",
    "apt",
    "app",
    "echo before",
    listed,
    "pip install",
    "echo after",
  ];
  expect(linesOf({ ...all, before: ["echo before"] })).toEqual(early);
  expect(linesOf({ needsApp: true })).toEqual(["venv", "venv", "version_info", "app"]);
});

verifies("images.recipe", "no command gets out of its line, and files belong to the project's user", () => {
  const text = dockerfileFor({
    ...PLAIN,
    after: ['printf "a\\n"\nUSER evil'],
    apt: ["x'; rm -rf /"],
    user: 1234,
  });
  expect(text).toContain(String.raw`RUN ["/bin/sh","-c","printf \"a\\n\"\nUSER evil"]`);
  expect(text).not.toMatch(/^USER evil/m);
  expect(text).toContain("'x; rm -rf /'");
  expect(text).toContain('COPY --chown=1234:1234 ["bundle/","/cortex/"]');
  expect(text).toMatch(/^FROM debian:12\nUSER 0\nWORKDIR \/cortex\n/);
});
