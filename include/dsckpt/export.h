#ifndef DSCKPT_EXPORT_H_
#define DSCKPT_EXPORT_H_

/// What a header declares in `namespace DSCKPT_EXPORT dsckpt { ... }` is visible outside the shared
/// library. All other names of the library are compiled with hidden visibility.
#define DSCKPT_EXPORT [[gnu::visibility("default")]]

/// For a class that is declared in such a block but is none of the user's business. It stands where
/// the class is defined.
#define DSCKPT_HIDDEN [[gnu::visibility("hidden")]]

#endif  // DSCKPT_EXPORT_H_
