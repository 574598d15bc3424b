// Package arena decides where every byte lives before any is allocated, and holds the one block in which they then do.
//
// A [Problem] lists buffers with their sizes and lifetimes; [Solve] answers with a [Plan], and [Check] proves it. A [Layout]
// lists regions and the parts in them, and its total is what [New] allocates: an [Arena]. Parts stay where they are;
// the rest of a region is handed out by [Arena.Take] and taken back by [Arena.Reset], after which a [Handle] of before
// fails with [ErrStale]. [Arena.Report] says who has what. A [Sentry] finds calls that write outside of their buffers.
//
// [Device], [Memory], [Stream] and [Event] are what a machine must offer.
package arena
