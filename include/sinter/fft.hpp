// fft.hpp: discrete Fourier transforms along one or several axes: fft, ifft, rfft, irfft, fft2, fftn; shifts and frequencies.
#pragma once

#include "complex.hpp"
#include "fft/functions.hpp"
#include "fft/grids.hpp"
