import type { Containers } from "../../host/containers/containers.ts";
import type { ProcessHost } from "../process/host.ts";
import type { Ports } from "../process/server/ports.ts";

/** What of a machine its containers have to know. */
export type ContainerHost = ProcessHost & { readonly containers: Containers; readonly ports: Ports };
