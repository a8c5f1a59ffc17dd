import { DeploySite } from "../../integration/deploys/site.ts";
import type { testDatabases } from "../databases.ts";
import { type TestService, testService } from "../service.ts";
import { makeZip } from "../zip-maker.ts";
import { podFlags } from "./pod-service.ts";
import { TEST_CLUSTER, TestNamespace } from "./real-cluster.ts";

/** What builds images on the cluster of this test run; null where nothing does. */
export const IMAGE_REGISTRY = TEST_CLUSTER?.images ?? null;
/** An image to build on. */
export const BASE = IMAGE_REGISTRY?.baseImage ?? "";
export const PORT = 8_000;
/** As little as a pod can ask for, so that all fit. */
export const SMALL = `[hardware]
cpu = 0.5
memory = 0.2
[scaling]
cooldown = 1
`;
const TOML = `[runtime.custom]\ndockerfile_path = "Dockerfile"\nport = ${PORT}\n${SMALL}`;

/** Two namespaces, one for apps and one in which their images are built, with what opens a registry in both. */
export type ImageSpaces = {
  readonly apps: TestNamespace;
  readonly images: TestNamespace;
  /** The settings of a service that builds there. */
  readonly flags: Record<string, string>;
};

/** Makes them. The registry may be reached by another `host`, and with another password. */
export async function imageSpaces({
  host = IMAGE_REGISTRY?.host ?? "",
  password = IMAGE_REGISTRY?.login.password ?? "",
} = {}): Promise<ImageSpaces> {
  const apps = await TestNamespace.make();
  const images = await apps.forImages();
  const auth = Buffer.from(`${IMAGE_REGISTRY?.login.username}:${password}`).toString("base64");
  for (const namespace of [apps, images])
    await namespace.create("api/v1", "secrets", {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "login" },
      type: "kubernetes.io/dockerconfigjson",
      stringData: {
        ".dockerconfigjson": JSON.stringify({ auths: { [host]: { auth }, ...ownLogin(host) } }),
      },
    });
  await images.create("api/v1", "configmaps", {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "buildkit" },
    data: {
      "buildkitd.toml": [host, IMAGE_REGISTRY?.host]
        .map((each) => `[registry."${each}"]\n  ca = ["/etc/buildkit/ca.pem"]\n`)
        .filter((each, at, all) => all.indexOf(each) === at)
        .join(""),
      "ca.pem": IMAGE_REGISTRY?.authority,
    },
  });
  const flags = {
    ...(await podFlags(apps)),
    registry: `${host}/millrace`,
    registrySecret: "login",
    buildkitImage: IMAGE_REGISTRY?.buildkitImage ?? "",
    buildkitNamespace: images.name,
    buildkitConfig: "buildkit",
    egressAllow: `${TEST_CLUSTER?.hostAddress}/32`,
  };
  return { apps, images, flags };
}

/** Base images come from the registry itself, by whichever way images go there. */
function ownLogin(host: string): object {
  const { username, password } = IMAGE_REGISTRY?.login ?? {};
  const auth = Buffer.from(`${username}:${password}`).toString("base64");
  return host === IMAGE_REGISTRY?.host ? {} : { [IMAGE_REGISTRY?.host ?? ""]: { auth } };
}

/** A service that builds images in a namespace of its own. */
export type ImageSite = Omit<ImageSpaces, "flags"> & { readonly on: TestService; readonly site: DeploySite };

export async function buildingImages(
  databases: ReturnType<typeof testDatabases>,
  more: Record<string, unknown> = {},
  way: Parameters<typeof imageSpaces>[0] = {},
): Promise<ImageSite> {
  const { apps, images, flags } = await imageSpaces(way);
  const { databaseUrl } = await databases.fresh("postgres");
  const on = await testService({}, { databaseUrl, ...flags, ...more });
  return { on, site: new DeploySite(on), apps, images };
}

/** An app that is a server, in an image by that Dockerfile. */
export function withDockerfile(dockerfile: string, files: Record<string, string> = {}): Buffer {
  const all = { "millrace.toml": TOML, Dockerfile: dockerfile, ...files };
  return makeZip(Object.entries(all).map(([name, content]) => ({ name, content })));
}
