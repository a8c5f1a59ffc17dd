import { expect } from "vitest";
import { IMAGE_BUILD_KEYS } from "../../../src/config/image-build-keys.ts";
import { verifies } from "../../verifies.ts";

verifies("buildkit.logins", "a registry is a host that is not the pod itself, with a path", () => {
  const { reader } = IMAGE_BUILD_KEYS.registry;
  for (const name of ["registry.internal", "registry:5000/a/b_c", "10.0.0.7:5000/millrace"])
    expect(reader.read(name)).toBe(name);
  const bad = ["localhost", "localhost:5000/millrace", "127.0.0.1:5000", "millrace", "a.b/UP", "a.b/x:1"];
  for (const name of [...bad, "https://a.b", "a.b/../c", "a.b//c"]) expect(reader.read(name)).toBeUndefined();
});
