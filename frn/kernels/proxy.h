// Proxy normalisation (Labatie et al. 2021, arXiv 2106.03743) of one channel: z is brought to the mean 0 and the
// deviation 1 that it would have if xhat were a normal number q,
//
//   z' = a*(z - mean)    a = 1/sqrt(variance + 0.03)
//   mean and variance: those of max(y, kappa*y + tau) for y = gamma*q + beta
//
// With a > 0 that is the same layer with other parameters: max(y', kappa*y' + tau') for y' = gamma'*xhat + beta', where
// gamma' = a*gamma, beta' = a*(beta - mean), tau' = a*(tau - (1 - kappa)*mean). So it costs nothing per value of a map.
//
// Its authors take the mean over 256 quantiles of q; here it is exact. With s = |gamma|, theta = tau/(1 - kappa), where
// the activation bends, m = beta - theta and alpha = m/s, z is a line and a ramp, l*y + c + w*max(y - theta, 0): its
// slope is l = min(kappa, 1) below the bend and u = max(kappa, 1) above, w = u - l, and c = tau for kappa < 1, else 0.
// Phi and phi are the normal distribution and density:
//
//   mean     = l*beta + c + w*(m*Phi + s*phi)
//   variance = s^2*(l^2*(1 - Phi) + u^2*Phi + w^2*v)    v = alpha^2*Phi*(1 - Phi) + alpha*phi*(1 - 2*Phi) - phi^2
#pragma once

#include <algorithm>
#include <cmath>

namespace frn::kernels {

inline constexpr double kProxyEps = 0.03;    // as in published implementations
inline constexpr double kProxyFarAway = 40;  // phi is 0 there, and Phi 0 or 1

struct ProxyParameters {
  double gamma;
  double beta;
  double tau;    // 0 where the activation has none
  double kappa;  // 0 where the activation has none
};

// Mean and variance of z, each with its derivatives.
struct ProxyMoments {
  double mean;
  double variance;
  ProxyParameters dmean;
  ProxyParameters dvariance;
};

inline ProxyMoments proxy_moments(const ProxyParameters& p) {
  const double s = std::abs(p.gamma);
  const double ds = p.gamma > 0 ? 1 : p.gamma < 0 ? -1 : 0;  // by gamma
  const double below = 1 - p.kappa;
  const bool bends = below != 0;
  const double l = std::min(p.kappa, 1.0);
  const double u = std::max(p.kappa, 1.0);
  const double w = std::abs(below);
  const double dl = below > 0 ? 1 : 0;  // by kappa, as the next two
  const double du = below < 0 ? 1 : 0;
  const double dw = du - dl;
  const double c = below > 0 || (!bends && p.tau > 0) ? p.tau : 0;
  const double dc = below > 0 || (!bends && p.tau > 0) ? 1 : 0;  // by tau
  const double theta = bends ? p.tau / below : 0;
  const double m = p.beta - theta;
  // Without a spread (gamma 0) all of z lies on one side; at the bend itself on that of y, where its gradient goes.
  const double alpha = s > 0    ? std::clamp(m / s, -kProxyFarAway, kProxyFarAway)
                       : m >= 0 ? kProxyFarAway
                                : -kProxyFarAway;
  constexpr double kRootHalf = 0.70710678118654752440;
  constexpr double kDensityAt0 = 0.39894228040143267794;     // 1/sqrt(2*pi)
  const double above = 0.5 * std::erfc(-alpha * kRootHalf);  // Phi
  const double rest = 0.5 * std::erfc(alpha * kRootHalf);    // 1 - Phi
  const double density = kDensityAt0 * std::exp(-0.5 * alpha * alpha);
  const double v = alpha * alpha * above * rest + alpha * density * (rest - above) - density * density;
  const double dv = 2 * rest * (alpha * above + density) - density;  // by alpha
  const double ramp = m * above + s * density;                       // E[max(y - theta, 0)]
  const double share = std::max(0.0, l * l * rest + u * u * above + w * w * v);

  // By what they are made of: beta moves m, gamma moves s, tau and kappa move theta and so m.
  const double mean_by_m = w * above;
  const double mean_by_s = w * density;
  const double share_by_alpha = (u * u - l * l) * density + w * w * dv;
  const double variance_by_m = s * share_by_alpha;
  const double variance_by_s = 2 * s * share - s * alpha * share_by_alpha;
  const double theta_by_tau = bends ? 1 / below : 0;
  const double theta_by_kappa = bends ? theta / below : 0;
  return {
      .mean = l * p.beta + c + w * ramp,
      .variance = s * s * share,
      .dmean = {.gamma = mean_by_s * ds,
                .beta = l + mean_by_m,
                .tau = dc - mean_by_m * theta_by_tau,
                .kappa = dl * p.beta + dw * ramp - mean_by_m * theta_by_kappa},
      .dvariance = {.gamma = variance_by_s * ds,
                    .beta = variance_by_m,
                    .tau = -variance_by_m * theta_by_tau,
                    .kappa =
                        2 * s * s * (l * dl * rest + u * du * above + w * dw * v) - variance_by_m * theta_by_kappa},
  };
}

struct ProxyResult {
  double gamma;
  double beta;
  double tau;
};

inline ProxyResult proxy_forward(const ProxyParameters& p) {
  const auto moments = proxy_moments(p);
  const double a = 1 / std::sqrt(moments.variance + kProxyEps);
  return {.gamma = a * p.gamma, .beta = a * (p.beta - moments.mean), .tau = a * (p.tau - (1 - p.kappa) * moments.mean)};
}

// The gradients of the parameters from those of the results.
inline ProxyParameters proxy_backward(const ProxyParameters& p, const ProxyResult& d) {
  const auto moments = proxy_moments(p);
  const double a = 1 / std::sqrt(moments.variance + kProxyEps);
  const double below = 1 - p.kappa;
  const double da = d.gamma * p.gamma + d.beta * (p.beta - moments.mean) + d.tau * (p.tau - below * moments.mean);
  const double dmean = -a * (d.beta + d.tau * below);
  const double dvariance = -0.5 * a * a * a * da;
  const auto through = [&](double by_mean, double by_variance) { return dmean * by_mean + dvariance * by_variance; };
  return {.gamma = a * d.gamma + through(moments.dmean.gamma, moments.dvariance.gamma),
          .beta = a * d.beta + through(moments.dmean.beta, moments.dvariance.beta),
          .tau = a * d.tau + through(moments.dmean.tau, moments.dvariance.tau),
          .kappa = a * moments.mean * d.tau + through(moments.dmean.kappa, moments.dvariance.kappa)};
}

}  // namespace frn::kernels
