#ifndef DSCKPT_TESTS_SUPPORT_CATCH_H_
#define DSCKPT_TESTS_SUPPORT_CATCH_H_

// Catch2 v2 and v3 alike.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#endif  // DSCKPT_TESTS_SUPPORT_CATCH_H_
