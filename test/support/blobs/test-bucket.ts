import { blobAddress } from "../../../src/config/blob-address.ts";
import type { S3Address } from "../../../src/blobs/s3/s3-client.ts";

/**
 * The bucket of the tests, from MILLRACE_TEST_S3, written as MILLRACE_BLOBS is; its keys are where those of a service
 * are. Null, and said aloud, where there is none.
 */
export function testBucket(): S3Address | null {
  const text = process.env["MILLRACE_TEST_S3"];
  if (!text) {
    process.stderr.write(
      "\nskipped: MILLRACE_TEST_S3 names no bucket (s3://bucket?endpoint=http://…&path_style=true)\n",
    );
    return null;
  }
  const address = blobAddress.read(text);
  if (address?.kind !== "s3") throw new Error(`MILLRACE_TEST_S3 must be ${blobAddress.expects}`);
  return address;
}
