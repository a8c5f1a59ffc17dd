import type { SeatPlace } from "../agent/seat-place.ts";
import type { KubernetesPlace } from "./place.ts";

/** Seats that build images have a place of their own, which admits what builds them; all others are where they were. */
export function imagesApart(place: KubernetesPlace, images: KubernetesPlace): SeatPlace {
  return {
    name: place.name,
    builds: true,
    images: images.images,
    begin: (order, workload, events) =>
      (workload.buildsImage ? images : place).begin(order, workload, events),
    adopt: (seat, workload, events) => place.adopt(seat, workload, events),
    leaveNothing() {
      place.leaveNothing();
      images.leaveNothing();
    },
    async close() {
      await Promise.all([place.close(), images.close()]);
    },
  };
}
