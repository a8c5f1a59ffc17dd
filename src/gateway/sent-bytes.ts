import type { Socket } from "node:net";

/**
 * How many bytes the kernel has taken of all that a socket was given to send. Node tells of a write only when the
 * whole of it is gone, and a message may be megabytes that a slow caller takes for minutes; its own socket timeout
 * looks at the same two numbers.
 */
export function sentBytes(socket: Socket): number {
  const { _handle: handle } = socket as { _handle?: { bytesWritten: number; writeQueueSize: number } | null };
  return handle ? handle.bytesWritten - handle.writeQueueSize : socket.bytesWritten;
}
