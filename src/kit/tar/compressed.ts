import { createZstdCompress } from "node:zlib";
import { TarWriter } from "./write.ts";

/** An archive, compressed, in pieces: `fill` adds what is in it. What that throws ends the pieces. */
export async function* compressed(
  fill: (tar: TarWriter) => Promise<void>,
): AsyncGenerator<Buffer, void, void> {
  const packed = createZstdCompress();
  const write = async (bytes: Buffer): Promise<void> => {
    // The writer fills the buffer anew: what was written has to be taken in by then.
    await new Promise<void>((resolve, reject) => {
      packed.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
  };
  const finish = async (): Promise<void> => void packed.end();
  const tar = new TarWriter({ write, finish, abandon: finish });
  const pack = async (): Promise<void> => {
    await fill(tar);
    await tar.finish();
  };
  pack().catch((error: unknown) => packed.destroy(error instanceof Error ? error : new Error(String(error))));
  yield* packed as AsyncIterable<Buffer>;
}
