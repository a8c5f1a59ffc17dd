import type { Containers } from "../../host/containers/containers.ts";
import type { ProcessHost } from "../local/host.ts";

/** What of a machine its containers have to know. */
export type ContainerHost = ProcessHost & { readonly containers: Containers };
